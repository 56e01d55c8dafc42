"""The lock that makes one process the owner of the tracker's file, whatever happens to the file."""

from __future__ import annotations

import fcntl
import os
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
        self._file = path.with_name(path.name + ".lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read(20).strip() or "unknown"
            self._file.close()
            raise Locked(
                f"the tracker's file is locked by another process (PID {holder})"
            ) from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let go; the lock file stays, since another process may be waiting on it."""
        self._file.close()
