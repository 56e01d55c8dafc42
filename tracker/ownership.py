"""The lock that makes one process the owner of the tracker's file, whatever happens to the file."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from tracker.errors import Locked


class Ownership:
    """Held from the first opening of a file to its last closing, by the operating system, which
    frees it when the process dies.

    DuckDB's own lock goes with the open file: between two openings, while damage is set aside or
    a compacted file takes the old one's place, only this one keeps another process out.
    """

    def __init__(self, path: Path) -> None:
        """Raises Locked, which names the holder's PID, or OSError."""
        descriptor = os.open(
            path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        # Lets go; the lock file stays, since another process may be waiting on it.
        self.release = weakref.finalize(self, os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise Locked(
                f"the tracker's file is locked by another process (PID {holder})"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
