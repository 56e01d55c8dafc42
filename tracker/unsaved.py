"""How many records stand in the write-ahead log alone, counted outside of it."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

DIGITS = 20


class Unsaved:
    """A number in a small file: what the loss of the log would cost at most.

    It is raised before a transaction is committed, so that a process that dies leaves it too high
    rather than too low, and it is not synced: after a power failure it may be old. DuckDB moves
    the log into the database by itself now and then; a log that shrank tells.
    """

    def __init__(self, path: Path, log: Path) -> None:
        """Goes on from what the last owner left. Raises OSError."""
        self._log = log
        self._log_bytes = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.close = weakref.finalize(self, os.close, self._descriptor)
        left = os.pread(self._descriptor, DIGITS, 0).strip()
        self._count = int(left) if left.isdigit() else None

    @property
    def count(self) -> int | None:
        """The records in the log, at most; None if nobody counted from its start."""
        self._look()
        return self._count

    def add(self, records: int) -> None:
        """Count records that are about to be committed."""
        self._look()
        if self._count is not None:
            self._write(self._count + records)

    def _look(self) -> None:
        """Begin anew if the log did: what it held is in the database then."""
        size = self._log.stat().st_size if self._log.exists() else 0
        if size < self._log_bytes or size == 0:
            self._write(0)
        self._log_bytes = size

    def _write(self, count: int) -> None:
        self._count = count
        os.pwrite(self._descriptor, str(count).rjust(DIGITS).encode(), 0)
