"""Sudden death and damaged files: what is kept, and what is set aside."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.tracker.stores import OpenStore, RunOwner, StartOwner, make_record, retrieval_ids
from tracker.records import Counts, Opened, Window

TWO_IN_THE_LOG = """
record(1); store.checkpoint(); record(2); record(3); os._exit(0)
"""


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def overwrite(file: Path, at: int, new: bytes) -> bytes:
    content = bytearray(file.read_bytes())
    content[at : at + len(new)] = new
    file.write_bytes(content)
    return bytes(content)


def damage_log(path: Path) -> bytes:
    log = wal_of(path)
    at = log.read_bytes().index(b"easily found")
    return overwrite(log, at, b"\xff" * 64)


def damage_database(path: Path) -> bytes:
    for header in (4096, 8192):  # the two that DuckDB writes in turn
        overwrite(path, header + 16, b"\xff" * 64)
    return path.read_bytes()


@pytest.mark.slow
def test_kill_loses_no_acknowledged_feedback(
    open_store: OpenStore, path: Path, start_owner: StartOwner
) -> None:
    owner = start_owner(
        """
for number in range(100_000):
    record(number)
    store.feedback("acme", Feedback(f"r{number}", "guide", "relevant", NOON))
    say(f"r{number}")
""",
        path,
    )
    assert owner.stdout is not None
    acknowledged = [owner.stdout.readline().strip() for _ in range(20)]
    owner.send_signal(signal.SIGKILL)
    acknowledged += owner.stdout.read().split()
    owner.wait()
    store = open_store()
    kept = {one.retrieval_id for one in store.find_feedback(Window("acme"), limit=1_000_000)}
    assert acknowledged[0] == "r0"
    assert kept >= set(acknowledged)
    assert store.orphans() == 0
    assert store.opened == Opened(new_file=False, set_aside=())


def test_a_torn_log_opens_without_its_last_transaction(
    open_store: OpenStore, path: Path, run_owner: RunOwner
) -> None:
    run_owner(TWO_IN_THE_LOG, path)
    log = wal_of(path)
    log.write_bytes(log.read_bytes()[:-37])
    store = open_store()
    assert store.opened == Opened(new_file=False, set_aside=())
    assert retrieval_ids(store) == ["r2", "r1"]
    assert store.orphans() == 0


def test_a_damaged_log_is_set_aside(open_store: OpenStore, path: Path, run_owner: RunOwner) -> None:
    run_owner(TWO_IN_THE_LOG, path)
    damaged = damage_log(path)
    store = open_store()
    (aside,) = store.opened.set_aside
    assert aside.startswith("tracker.duckdb.wal.")
    assert (path.parent / aside).read_bytes() == damaged
    assert not store.opened.new_file
    assert retrieval_ids(store) == ["r1"]
    assert store.orphans() == 0


def test_a_damaged_database_is_set_aside_with_its_log(
    open_store: OpenStore, path: Path, run_owner: RunOwner
) -> None:
    run_owner(TWO_IN_THE_LOG, path)
    log, database = damage_log(path), damage_database(path)
    store = open_store()
    first, second = store.opened.set_aside
    assert first.startswith("tracker.duckdb.wal.")
    assert second.startswith("tracker.duckdb.2")
    assert (path.parent / first).read_bytes() == log
    assert (path.parent / second).read_bytes() == database
    assert store.opened.new_file
    assert store.counts() == Counts(0, 0, 0, 0)
    assert store.record([make_record("r4")]) == 1


def test_a_damaged_database_without_a_log_is_set_aside(open_store: OpenStore, path: Path) -> None:
    open_store().close()
    damage_database(path)
    store = open_store()
    (aside,) = store.opened.set_aside
    assert aside.startswith("tracker.duckdb.2")
    assert store.opened.new_file


def test_a_lost_log_is_shown_with_the_records_that_it_may_have_held(
    open_store: OpenStore, path: Path, run_owner: RunOwner
) -> None:
    run_owner(TWO_IN_THE_LOG, path)
    damage_log(path)
    store = open_store()
    (damage,) = store.damages()
    assert damage.set_aside == store.opened.set_aside
    assert damage.possibly_lost == 2
    store.close()
    assert open_store().damages() == [damage]  # until the file itself is lost


def test_of_a_lost_database_nobody_knows_what_it_held(
    open_store: OpenStore, path: Path, run_owner: RunOwner
) -> None:
    run_owner(TWO_IN_THE_LOG, path)
    damage_log(path)
    damage_database(path)
    (damage,) = open_store().damages()
    assert (len(damage.set_aside), damage.possibly_lost) == (2, None)


def test_a_log_that_nobody_counted_is_of_unknown_length(
    open_store: OpenStore, path: Path, run_owner: RunOwner
) -> None:
    run_owner(TWO_IN_THE_LOG, path)
    path.with_name("tracker.duckdb.unsaved").unlink()
    damage_log(path)
    (damage,) = open_store().damages()
    assert damage.possibly_lost is None


def test_a_log_of_another_checkpoint_goes_with_the_damaged_one(
    open_store: OpenStore, path: Path, run_owner: RunOwner
) -> None:
    run_owner(TWO_IN_THE_LOG, path)
    damage_log(path)
    path.with_name("tracker.duckdb.wal.checkpoint").write_bytes(b"half a log")
    store = open_store()
    assert [name.rsplit(".", 2)[0] for name in store.opened.set_aside] == [
        "tracker.duckdb.wal",
        "tracker.duckdb.wal.checkpoint",
    ]
    assert retrieval_ids(store) == ["r1"]
