"""What can keep the tracker's file from being opened and is worth waiting for."""

from __future__ import annotations

from pipeline.errors import Unavailable


class Locked(Unavailable):
    """Another process holds the file. It may be a last owner about to let go, so opening again
    can succeed without anybody's doing, which no other Unavailable of an opening promises."""
