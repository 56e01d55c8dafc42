"""The HTTP routes, by what they are about; everything they do is done elsewhere."""
