from __future__ import annotations

import threading
from pathlib import Path

import duckdb

from tests.tracker.stores import LATER, OpenStore, RunOwner, make_record, minute, retrieval_ids
from tracker.records import (
    Counts,
    Feedback,
    Opened,
    Window,
)
from tracker.store import TrackerStore


def test_a_new_file_is_begun_with_its_folder(store: TrackerStore, path: Path) -> None:
    assert path.exists()
    assert store.opened == Opened(new_file=True, set_aside=())
    assert store.counts() == Counts(0, 0, 0, 0)


def test_an_existing_file_is_opened_with_its_rows(open_store: OpenStore) -> None:
    first = open_store()
    first.record([make_record("r1")])
    first.close()
    second = open_store()
    assert second.opened == Opened(new_file=False, set_aside=())
    assert retrieval_ids(second) == ["r1"]


def test_documents_keep_their_last_state(store: TrackerStore, path: Path) -> None:
    store.record_documents("acme", "docs", [("a", "old"), ("a", "A"), ("b", None)], minute(0))
    store.record_documents("acme", "wiki", [("a", "wiki's")], minute(0))
    assert store.delete_documents("acme", "docs", ["a", "b", "unknown"], minute(1)) == 2
    assert store.delete_documents("acme", "docs", ["b"], minute(2)) == 0
    store.record_documents("acme", "docs", [("a", "A again")], minute(3))
    assert store.counts().documents == 3
    store.close()
    with duckdb.connect(str(path)) as connection:
        rows = connection.execute("SELECT * FROM documents ORDER BY corpus, document_id").fetchall()
    assert rows == [
        ("acme", "docs", "a", "A again", minute(3), None),
        ("acme", "docs", "b", None, minute(0), minute(1)),
        ("acme", "wiki", "a", "wiki's", minute(0), None),
    ]


def test_times_do_not_depend_on_the_time_zone(
    open_store: OpenStore,
    path: Path,
    run_owner: RunOwner,
) -> None:
    store = open_store()
    store.record([make_record("r1", after=0.5)])
    store.close()
    script = """
store.feedback("acme", Feedback("r1", "guide", "relevant", NOON + timedelta(hours=12)))
say(store.find_records(Window("acme"))[0].retrieved_at.isoformat())
store.close()
"""
    said = run_owner(script, path, TZ="Asia/Kolkata")
    assert said == "2026-03-01T12:00:30+00:00\n"
    store = open_store()
    assert store.find_feedback(Window("acme")) == [Feedback("r1", "guide", "relevant", LATER)]


def test_readers_get_their_own_rows_while_the_writer_writes(store: TrackerStore) -> None:
    tenants = ("t0", "t1", "t2", "t3")
    store.record([make_record(f"first-{name}", -1, tenant=name) for name in tenants])
    written = threading.Event()
    foreign: list[str] = []
    reads = dict.fromkeys(tenants, 0)

    def read(tenant: str) -> None:
        while not written.is_set() or reads[tenant] == 0:
            for record in store.find_records(Window(tenant)):
                if record.tenant != tenant or len(record.hits) != 1:
                    foreign.append(record.retrieval_id)
            reads[tenant] += 1

    readers = [threading.Thread(target=read, args=(name,)) for name in tenants]
    for reader in readers:
        reader.start()
    for at in range(40):
        store.record([make_record(f"{at}-{name}", at, tenant=name) for name in tenants])
    written.set()
    for reader in readers:
        reader.join()
    assert foreign == []
    assert min(reads.values()) > 0
    assert [len(store.find_records(Window(name))) for name in tenants] == [41, 41, 41, 41]
