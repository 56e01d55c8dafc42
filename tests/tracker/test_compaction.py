"""Writing the file anew: what it gives back, what it never loses, and what a death leaves."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pipeline.errors import Unavailable
from tests.records import comparison_of
from tests.tracker.stores import (
    ALL,
    LATER,
    OpenStore,
    StartOwner,
    make_record,
    minute,
    retrieval_ids,
)
from tracker.errors import Locked
from tracker.records import Feedback, Opened, PurgeCounts, RetentionRun
from tracker.store import TrackerStore


def compact(store: TrackerStore) -> None:
    store.begin_compaction()
    store.copy_for_compaction()
    store.finish_compaction()


def test_a_compacted_file_gives_back_the_space_and_keeps_all_else(
    open_store: OpenStore, path: Path
) -> None:
    store = open_store()
    store.record(
        [make_record(f"r{n:05}", n, tuple(f"doc{m}" for m in range(50))) for n in range(2000)]
    )
    store.record([kept := make_record("kept", 5000, ("a", "b"))])
    store.feedback("acme", Feedback("kept", "a", "relevant", LATER))
    store.record_comparisons([comparison_of(kept)])
    store.record_documents("acme", "docs", [("a", "A")], minute(0))
    store.record_run(RetentionRun(minute(0), minute(1), minute(0), 7, None, "schedule"))
    store.purge_step(minute(4000), 5000)
    store.checkpoint()
    before = [store.find_records(ALL), store.find_feedback(ALL), store.find_comparisons(ALL)]
    counts, status = store.counts(), store.retention_status()
    store.begin_compaction()
    store.copy_for_compaction()
    compacted = store.finish_compaction()
    assert compacted.bytes_after < compacted.bytes_before
    assert compacted.bytes_after == path.stat().st_size
    for _ in range(2):
        assert [
            store.find_records(ALL),
            store.find_feedback(ALL),
            store.find_comparisons(ALL),
        ] == before
        assert (store.counts(), store.retention_status()) == (counts, status)
        assert store.opened == Opened(new_file=store.opened.new_file, set_aside=())
        store.close()
        store = open_store()
    assert store.record([kept]) == 0


def test_what_is_written_while_the_copy_is_made_is_in_the_new_file(store: TrackerStore) -> None:
    store.record([make_record("r1"), make_record("r2")])
    store.feedback("acme", Feedback("r1", "guide", "relevant", minute(1)))
    store.record_documents("acme", "docs", [("a", None)], minute(0))
    store.begin_compaction()
    store.record([make_record("early", -60)])
    store.copy_for_compaction()
    late = make_record("late", 1, ("a", "b"))
    store.record([late, make_record("long ago", -60 * 24 * 90)])
    store.feedback("acme", Feedback("r1", "guide", "not_relevant", minute(2)))
    store.feedback("acme", Feedback("late", "b", "relevant", minute(3)))
    store.record_comparisons([comparison_of(late), comparison_of(make_record("r2"))])
    store.record_documents("acme", "docs", [("b", None)], minute(0))
    store.delete_documents("acme", "docs", ["a"], minute(1))
    store.finish_compaction()
    assert retrieval_ids(store) == ["late", "r2", "r1", "early", "long ago"]
    assert store.get_record("acme", "late").record == late
    assert store.find_feedback(ALL) == [
        Feedback("late", "b", "relevant", minute(3)),
        Feedback("r1", "guide", "not_relevant", minute(2)),
    ]
    assert len(store.find_comparisons(ALL)) == 2
    assert store.delete_documents("acme", "docs", ["a"], minute(2)) == 0
    assert store.counts().documents == 2
    assert store.orphans() == 0


def test_nothing_is_purged_while_the_copy_is_made(store: TrackerStore) -> None:
    store.record([make_record("r1")])
    store.begin_compaction()
    with pytest.raises(Unavailable, match="being compacted"):
        store.purge_step(LATER)
    store.abandon_compaction()
    assert store.purge_step(LATER) == PurgeCounts(1, 1)


def test_an_abandoned_copy_leaves_no_file_and_changes_nothing(
    store: TrackerStore, path: Path
) -> None:
    store.record([make_record("r1")])
    store.begin_compaction()
    store.copy_for_compaction()
    store.abandon_compaction()
    assert not list(path.parent.glob("*.compacted*"))
    assert retrieval_ids(store) == ["r1"]
    with pytest.raises(Unavailable, match="not being compacted"):
        store.finish_compaction()
    compact(store)
    assert retrieval_ids(store) == ["r1"]


def test_a_copy_that_lacks_a_row_never_takes_the_originals_place(
    store: TrackerStore, path: Path
) -> None:
    store.record([make_record("r1"), make_record("r2")])
    store.begin_compaction()
    store.copy_for_compaction()
    with store._database.transaction() as cursor:
        cursor.execute("DELETE FROM compacted.retrievals WHERE retrieval_id = 'r1'")
    inode = path.stat().st_ino
    with pytest.raises(Unavailable, match="retrievals has 1 rows instead of 2"):
        store.finish_compaction()
    store.abandon_compaction()
    assert path.stat().st_ino == inode
    assert retrieval_ids(store) == ["r2", "r1"]


def test_a_reader_between_two_statements_is_told_that_its_file_has_gone(
    store: TrackerStore,
) -> None:
    store.record([make_record("r1")])
    store.begin_compaction()
    store.copy_for_compaction()
    reading = store._database.transaction()
    reading.__enter__().execute("SELECT * FROM retrievals")
    store.finish_compaction()
    with pytest.raises(Unavailable):
        reading.__exit__(None, None, None)
    assert retrieval_ids(store) == ["r1"]


@pytest.mark.slow
@pytest.mark.parametrize("wait_for", ["copied", "writing", "finished"])
def test_a_kill_at_any_moment_of_a_compaction_loses_nothing(
    open_store: OpenStore, path: Path, start_owner: StartOwner, wait_for: str
) -> None:
    owner = start_owner(
        """
import threading
store.record([make_record(f"old{n}", n, tuple("abcdefghij")) for n in range(5000)])
acknowledged = 0
def write(count):
    global acknowledged
    for _ in range(count):
        record(acknowledged)
        store.feedback("acme", Feedback(f"r{acknowledged}", "guide", "relevant", NOON))
        say(f"r{acknowledged}")
        acknowledged += 1
write(3)
while True:
    store.begin_compaction()
    copying = threading.Thread(target=store.copy_for_compaction)
    copying.start()
    say("writing")
    while copying.is_alive():
        write(1)
    say("copied")
    write(1)
    store.finish_compaction()
    say("finished")
    write(1)
""",
        path,
    )
    assert owner.stdout is not None
    said: list[str] = []
    while said.count(wait_for) < 2:
        said.append(owner.stdout.readline().strip())
    owner.send_signal(signal.SIGKILL)
    said += owner.stdout.read().split()
    owner.wait()
    store = open_store()
    kept = {one.retrieval_id for one in store.find_feedback(ALL, limit=1_000_000)}
    assert kept >= {word for word in said if word.startswith("r")}
    assert store.counts().retrievals >= 5000 + len(kept)
    assert store.orphans() == 0
    assert store.opened == Opened(new_file=False, set_aside=())
    assert not list(path.parent.glob("*.compacted*"))


def test_no_other_process_gets_the_file_while_it_is_exchanged(
    open_store: OpenStore, path: Path, start_owner: StartOwner
) -> None:
    store = open_store()
    store.record([make_record("r1")])
    store.begin_compaction()
    store.copy_for_compaction()
    store._database._release()  # as in the moment of the exchange: DuckDB's own lock is gone
    with pytest.raises(Locked):
        TrackerStore.open(path, memory_limit="256MB", threads=1)
    store.abandon_compaction()
    assert retrieval_ids(store) == ["r1"]
