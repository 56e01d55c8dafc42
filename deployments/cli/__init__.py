"""The `onepass` command: models on this machine, everything else over HTTP."""
