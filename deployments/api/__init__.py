"""Wire models, one file a dialect."""
