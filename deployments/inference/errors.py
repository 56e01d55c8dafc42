"""The one error of models: missing, unusable, or not what was asked for."""

from __future__ import annotations

from pipeline.errors import Unavailable


class ModelError(Unavailable):
    """A model or its files cannot be used; the message says what to do about it."""
