"""Errors inside DuckDB: what is lost, what is told, and how the next call goes on."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import duckdb
import pytest

from pipeline.errors import NotFound, Unavailable
from tests.tracker.stores import LATER, OpenStore, RunOwner, make_record, retrieval_ids
from tracker.database import Database
from tracker.records import Counts, Feedback, Opened
from tracker.store import TrackerStore


def test_a_full_disk_fails_the_write_and_nothing_else(
    open_store: OpenStore, path: Path, run_owner: RunOwner
) -> None:
    run_owner(
        """
import random, resource, signal
from pipeline.errors import Unavailable

record(1)
store.checkpoint()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
try:
    record(2, random.Random(7).randbytes(1 << 20).hex())
except Unavailable:
    pass
else:
    raise SystemExit("the write should have failed")
assert store.counts().retrievals == 1
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
record(3)
assert store.opened.set_aside == ()
store.close()
""",
        path,
    )
    assert retrieval_ids(open_store()) == ["r3", "r1"]


def poison(database: Database) -> None:
    """Make DuckDB raise its FatalException, as it does when a checkpoint cannot be written."""
    with database.transaction() as cursor:
        cursor.execute("SET GLOBAL debug_checkpoint_abort = 'before_header'")
    with pytest.raises(Unavailable, match="FatalException"):
        database.checkpoint()


def test_the_call_after_a_fatal_error_reopens_the_file(path: Path) -> None:
    database = Database(path, memory_limit="256MB", threads=1)
    store = TrackerStore(database)
    store.record([make_record("r1")])
    poison(database)
    assert retrieval_ids(store) == ["r1"]
    poison(database)
    assert store.record([make_record("r2", 1)]) == 1
    assert retrieval_ids(store) == ["r2", "r1"]
    assert store.opened == Opened(new_file=True, set_aside=())
    store.close()


def test_an_idle_reader_does_not_hinder_the_reopening(path: Path) -> None:
    database = Database(path, memory_limit="256MB", threads=1)
    store = TrackerStore(database)
    store.record([make_record("r1")])
    reading = database.transaction()
    reading.__enter__().execute("SELECT * FROM retrievals")
    poison(database)
    assert retrieval_ids(store) == ["r1"]
    with pytest.raises(Unavailable):
        reading.__exit__(None, None, None)
    assert store.record([make_record("r2", 1)]) == 1
    store.close()


def test_a_kept_error_does_not_hinder_the_reopening(path: Path) -> None:
    database = Database(path, memory_limit="256MB", threads=1)
    with database.transaction() as cursor:
        cursor.execute("SET GLOBAL debug_checkpoint_abort = 'before_header'")
    with pytest.raises(Unavailable) as kept:
        database.checkpoint()
    assert TrackerStore(database).counts() == Counts(0, 0, 0, 0)
    assert kept.value.__traceback__ is not None
    database.close()


def test_busy_readers_go_on_after_a_fatal_error(path: Path) -> None:
    database = Database(path, memory_limit="256MB", threads=1)
    store = TrackerStore(database)
    store.record([make_record(f"r{at}", at) for at in range(50)])
    done = threading.Event()
    found: set[int] = set()

    def read() -> None:
        while not done.is_set():
            with contextlib.suppress(Unavailable):
                found.add(len(retrieval_ids(store)))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    poison(database)
    answer: Counts | None = None
    while answer is None:  # until the last statement on the poisoned database has ended
        with contextlib.suppress(Unavailable):
            answer = store.counts()
    done.set()
    for reader in readers:
        reader.join()
    assert answer == Counts(50, 50, 0, 0)
    assert found == {50}
    store.close()


def test_a_lost_file_is_begun_anew_by_the_reopening(path: Path) -> None:
    path.parent.mkdir()
    duckdb.connect(str(path)).close()
    database = Database(path, memory_limit="256MB", threads=1)
    store = TrackerStore(database)
    assert not store.opened.new_file
    store.record([make_record("r1")])
    poison(database)
    for file in path.parent.iterdir():
        file.unlink()
    assert store.counts() == Counts(0, 0, 0, 0)
    assert store.opened.new_file
    store.close()


def test_no_message_repeats_a_value(path: Path) -> None:
    database = Database(path, memory_limit="256MB", threads=1)
    store = TrackerStore(database)
    store.record([make_record("secret")])
    with pytest.raises(Unavailable) as failed, database.transaction() as cursor:
        cursor.execute("INSERT INTO retrievals SELECT * FROM retrievals")
    assert failed.value.message == "the tracker's database failed: ConstraintException"
    with pytest.raises(NotFound) as missing:
        store.feedback("acme", Feedback("hidden", "guide", "relevant", LATER))
    assert "hidden" not in missing.value.message
    store.close()
