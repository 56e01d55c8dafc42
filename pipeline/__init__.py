"""The domain: pure functions over frozen dataclasses; no I/O, no Ray."""
