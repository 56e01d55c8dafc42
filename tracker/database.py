"""The tracker's DuckDB file: opening it, setting damage aside, transactions, errors.

The only module that imports duckdb. Nothing here opens the database file by itself: closing any
descriptor of it would drop the lock that keeps other processes out.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path

import duckdb

from pipeline.errors import DeadlineExceeded, InvalidInput, OnepassError, Unavailable
from tracker.errors import Locked
from tracker.migrations import migrate
from tracker.ownership import Ownership
from tracker.records import Opened
from tracker.unsaved import Unsaved

Cursor = duckdb.DuckDBPyConnection

# DuckDB tells most failures to open a file apart by their text alone.
REASONS = {
    "permission denied": "permission denied",
    "no space left": "the disk is full",
    "newer version of duckdb": "it was written by a newer DuckDB",
    "not a valid duckdb": "it is not a DuckDB database",
}

# What DuckDB raises for a value that it cannot convert, such as a lone surrogate.
BAD_VALUE = (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError)

logger = logging.getLogger(__name__)


class Database:
    """One file, owned by this process, reopened by the next call after a fatal error.

    Everything that DuckDB or the file system raises comes out as Unavailable, and a value that
    cannot be stored as InvalidInput; no message holds data. Any thread may read; all writes must
    come from one thread.
    """

    def __init__(self, path: Path, *, memory_limit: str, threads: int) -> None:
        self.path = path
        log = beside(path, ".wal")
        self._logs = (log, beside(log, ".checkpoint"), beside(log, ".recovery"))
        self._config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory_limit,
            "threads": threads,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self._new_file = False
        self._set_aside: tuple[str, ...] = ()
        self._closed = False
        self._poisoned = False
        self._connection: Cursor | None = None
        # Several threads may meet a fatal error at once, and recovery renames files: only one
        # of them may reopen.
        self._opening = threading.Lock()
        with ExitStack() as stack, file_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._ownership = Ownership(path)
            stack.callback(self._ownership.release)
            self._unsaved = Unsaved(beside(path, ".unsaved"), log)
            stack.callback(self._unsaved.close)
            self._current()
            self._held = stack.pop_all()

    @property
    def opened(self) -> Opened:
        return Opened(self._new_file, self._set_aside)

    @contextmanager
    def transaction(self, records: int = 0) -> Iterator[Cursor]:
        """Yield a cursor of the caller's own in one transaction: committed at the end (durable
        once this returns), rolled back by any exception. `records` is how many it may store."""
        with self.session() as cursor:
            cursor.execute("BEGIN")
            yield cursor
            if records:
                with file_errors():
                    self._unsaved.add(records)
            cursor.execute("COMMIT")

    @contextmanager
    def session(self) -> Iterator[Cursor]:
        """Yield a cursor of the caller's own; what it leaves uncommitted is rolled back."""
        connection = self._current()
        try:
            # A cursor is a connection of its own (a shared one mixes up the rows of two
            # threads); closing it rolls back what it has not committed.
            with closing(connection.cursor()) as cursor:
                yield cursor
        except duckdb.Error as error:
            if is_fatal(error):
                self._condemn(connection)
            raise failure(error) from error

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database file and reclaim purged space."""
        with self.session() as cursor:
            cursor.execute("CHECKPOINT")

    def replace(self, file: Path) -> None:
        """Put another database, closed and without a log, in this one's place, and open it.

        At no moment is the path without a whole database. Raises Unavailable, and the old one
        stays, while a statement runs in another thread, or if its log cannot be emptied.
        """
        with self._opening, file_errors():
            self._release()
            if any(log.exists() for log in self._logs):
                raise Unavailable("the tracker's write-ahead log could not be emptied")
            file.replace(self.path)
            sync_folder(self.path.parent)
            self._connection = self._open()

    def close(self) -> None:
        """Close the file; later calls raise Unavailable. So does this one while another call is
        under way: close again when that has ended."""
        with self._opening:
            self._closed = True
            self._release()
            self._held.close()

    def _current(self) -> Cursor:
        connection = self._connection
        if connection is not None and not self._poisoned and not self._closed:
            return connection
        with self._opening:
            if self._closed:
                raise Unavailable("the tracker is closed")
            if self._poisoned:
                self._release()
            if self._connection is None:
                self._connection = self._open()
            return self._connection

    def _condemn(self, connection: Cursor) -> None:
        """Have the next call reopen the file, unless another thread's already has."""
        with self._opening:
            if self._connection is connection:
                logger.error("tracker: fatal database error; the next call reopens the file")
                self._poisoned = True

    def _release(self) -> None:
        """Close the connection with all its cursors, so that DuckDB lets go of the file.

        It refuses, and this raises Unavailable, while a cursor runs a statement in another
        thread. Dropping the reference would not do: as long as anything still refers to it,
        opening the path again gives the same poisoned database.
        """
        if self._connection is not None:
            try:
                self._connection.close()
            except duckdb.Error as error:
                raise failure(error) from error
        self._connection = None
        self._poisoned = False

    def _open(self) -> Cursor:
        with file_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # What a damaged file costs, least first: nothing, the log, log and database.
            return self._recover([(), self._logs, (*self._logs, self.path)])

    def _recover(self, attempts: list[tuple[Path, ...]], moved: tuple[str, ...] = ()) -> Cursor:
        """Set aside the first attempt's files and open; if that meets damage, go on to the next."""
        damaged, *rest = attempts
        lost = self._unsaved.count
        moved += move_aside(damaged)
        new_file = not self.path.exists()
        try:
            connection = self._begin()
        except duckdb.Error as error:
            logger.error("tracker: the file cannot be opened: %s", error)
            if rest and is_damage(error):
                return self._recover(rest, moved)
            raise refusal(error) from error
        if moved:
            note_damage(connection, moved, None if new_file else lost)
        self._set_aside += moved
        self._new_file = self._new_file or new_file
        return connection

    def _begin(self) -> Cursor:
        with ExitStack() as stack:
            connection = stack.enter_context(
                closing(duckdb.connect(str(self.path), config=self._config))
            )
            connection.execute("SET GLOBAL TimeZone = 'UTC'")
            migrate(connection)
            stack.pop_all()
        return connection


def beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


@contextmanager
def file_errors() -> Iterator[None]:
    """Raise Unavailable for what the file system raises."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"the tracker's file cannot be used: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make a renaming outlive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_aside(files: tuple[Path, ...]) -> tuple[str, ...]:
    """Rename the files that are there; return the names under which they are kept."""
    suffix = datetime.now(timezone.utc).strftime(".%Y%m%dT%H%M%S.%fZ")
    kept = [file.rename(beside(file, suffix)) for file in files if file.exists()]
    for file in kept:
        logger.error("tracker: damage; a file was set aside as %s", file)
    return tuple(file.name for file in kept)


def note_damage(connection: Cursor, set_aside: tuple[str, ...], lost: int | None) -> None:
    connection.execute(
        "INSERT INTO damages VALUES (?, ?, ?)",
        [datetime.now(timezone.utc), list(set_aside), lost],
    )


def count(cursor: Cursor, statement: str, parameters: Sequence[object] = ()) -> int:
    """Run a statement that answers one number, as INSERT, UPDATE, DELETE and count(*) do."""
    row = cursor.execute(statement, list(parameters)).fetchone()
    return 0 if row is None else int(row[0])


def is_fatal(error: duckdb.Error) -> bool:
    return isinstance(error, duckdb.FatalException) or "database has been invalidated" in str(error)


def is_damage(error: duckdb.Error) -> bool:
    """Whether DuckDB reports a bad checksum or corruption, and nothing else.

    Quoted parts are paths, and a lock error names the holder's program: neither may decide.
    """
    message = re.sub(r'"[^"]*"', "", str(error)).lower()
    if "could not set lock" in message:
        return False
    return "checksum" in message or "corrupt" in message


def refusal(error: duckdb.Error) -> Unavailable:
    message = str(error)
    if "Could not set lock" in message:
        holder = re.search(r"PID \d+", message)
        who = holder.group() if holder else "unknown PID"
        return Locked(f"the tracker's file is locked by another process ({who})")
    for mark, reason in REASONS.items():
        if mark in message.lower():
            return Unavailable(f"the tracker's file cannot be opened: {reason}")
    return Unavailable(f"the tracker's file cannot be opened: {type(error).__name__}")


def failure(error: duckdb.Error) -> OnepassError:
    """DuckDB's own messages repeat values, so only the class is told.

    InvalidInput says that a value cannot be stored, and that the database is well.
    """
    if isinstance(error, duckdb.InterruptException):
        return DeadlineExceeded("the tracker did not answer in time")
    if isinstance(error, BAD_VALUE) and not is_fatal(error):
        return InvalidInput(f"the tracker cannot store a value: {type(error).__name__}")
    return Unavailable(f"the tracker's database failed: {type(error).__name__}")
