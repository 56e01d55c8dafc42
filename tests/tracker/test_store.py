from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from pipeline.errors import InvalidInput, NotFound
from tests.tracker.stores import LATER, OpenStore, RunOwner, make_record, minute, retrieval_ids
from tracker.records import (
    Counts,
    Feedback,
    Opened,
    RetentionRun,
    RetentionStatus,
    TrackedRetrieval,
    Window,
)
from tracker.store import TrackerStore


def test_a_new_file_is_begun_with_its_folder(store: TrackerStore, path: Path) -> None:
    assert path.exists()
    assert store.opened == Opened(new_file=True, set_aside=())
    assert store.counts() == Counts(0, 0, 0, 0)


def test_what_was_recorded_comes_back_unchanged(store: TrackerStore) -> None:
    record = make_record("r1", documents=("guide", "manual", "dropped"))
    assert store.record([record]) == 1
    assert store.find_records(Window("acme")) == [record]
    assert store.get_record("acme", "r1") == TrackedRetrieval(record, ())


def test_a_batch_comes_back_with_each_hit_under_its_retrieval(store: TrackerStore) -> None:
    first = make_record("r1", 1, ("guide", "dropped"))
    second = make_record("r2", 2, ())
    third = make_record("r3", 3, ("dropped", "manual", "guide"), corpus="wiki")
    assert store.record([first, second, third]) == 3
    assert store.find_records(Window("acme")) == [third, second, first]


def test_what_is_not_there_stays_none_and_empty(store: TrackerStore) -> None:
    record = replace(
        make_record("r1", documents=()), verdict=None, model=None, degraded=(), timings_ms={}
    )
    store.record([record])
    assert store.find_records(Window("acme")) == [record]


def test_an_existing_file_is_opened_with_its_rows(open_store: OpenStore) -> None:
    first = open_store()
    first.record([make_record("r1")])
    first.close()
    second = open_store()
    assert second.opened == Opened(new_file=False, set_aside=())
    assert retrieval_ids(second) == ["r1"]


def test_a_retrieval_is_stored_once_with_its_hits(store: TrackerStore) -> None:
    assert store.record([make_record("r1"), make_record("r2")]) == 2
    assert store.record([make_record("r2"), make_record("r3"), make_record("r3")]) == 1
    assert store.record([make_record("r1")]) == 0
    assert store.record([]) == 0
    assert store.counts() == Counts(retrievals=3, hits=3, feedback=0, documents=0)


def test_the_first_of_two_with_one_id_counts(store: TrackerStore) -> None:
    first = make_record("r1", documents=("guide",))
    store.record([first, make_record("r1", documents=("manual", "other"))])
    assert store.find_records(Window("acme")) == [first]


def test_hits_keep_their_order(store: TrackerStore) -> None:
    documents = tuple(f"doc{number}" for number in (3, 1, 2, 11, 10))
    store.record([make_record("r1", documents=documents)])
    (record,) = store.find_records(Window("acme"))
    assert tuple(hit.document_id for hit in record.hits) == documents


def test_feedback_is_stored_and_replaced(store: TrackerStore) -> None:
    store.record([make_record("r1", documents=("guide", "manual"))])
    store.feedback("acme", Feedback("r1", "guide", "relevant", minute(1)))
    store.feedback("acme", Feedback("r1", "manual", "not_relevant", minute(2)))
    store.feedback("acme", Feedback("r1", "guide", "highly_relevant", minute(3)))
    kept = [
        Feedback("r1", "guide", "highly_relevant", minute(3)),
        Feedback("r1", "manual", "not_relevant", minute(2)),
    ]
    assert store.find_feedback(Window("acme")) == kept
    assert store.get_record("acme", "r1").feedback == (kept[1], kept[0])


def test_a_dropped_candidate_is_a_known_document(store: TrackerStore) -> None:
    store.record([make_record("r1", documents=("guide", "dropped"))])
    store.feedback("acme", Feedback("r1", "dropped", "relevant", LATER))
    assert store.find_feedback(Window("acme")) == [Feedback("r1", "dropped", "relevant", LATER)]


@pytest.mark.parametrize(
    ("tenant", "retrieval_id", "document_id", "param"),
    [
        ("acme", "r9", "guide", "retrieval_id"),
        ("other", "r1", "guide", "retrieval_id"),
        ("acme", "r1", "manual", "document_id"),  # a candidate of r2 only
    ],
)
def test_feedback_on_the_unknown_is_not_found(
    store: TrackerStore,
    tenant: str,
    retrieval_id: str,
    document_id: str,
    param: str,
) -> None:
    store.record([make_record("r1"), make_record("r2", documents=("manual",))])
    with pytest.raises(NotFound) as missing:
        store.feedback(tenant, Feedback(retrieval_id, document_id, "relevant", LATER))
    assert missing.value.param == param
    assert store.counts().feedback == 0
    assert store.record([make_record("r3")]) == 1  # the failed transaction is over


def test_tenants_see_only_their_own(store: TrackerStore) -> None:
    store.record(
        [
            make_record("r1", tenant="a_b", corpus="c", documents=("one",)),
            make_record("r2", tenant="a", corpus="b_c", documents=("two",)),
        ]
    )
    store.feedback("a", Feedback("r2", "two", "relevant", LATER))
    assert retrieval_ids(store, Window("a")) == ["r2"]
    assert retrieval_ids(store, Window("a_b")) == ["r1"]
    assert store.find_feedback(Window("a_b")) == []
    assert store.find_retrieved_document_ids(Window("a_b")) == ["one"]
    with pytest.raises(NotFound):
        store.get_record("a", "r1")


def test_windows_are_half_open_and_bounds_may_be_open(store: TrackerStore) -> None:
    store.record([make_record(f"r{at}", after=at, documents=(f"doc{at}",)) for at in range(4)])
    whole = Window("acme")
    from_one = Window("acme", since=minute(1))
    up_to_two = Window("acme", until=minute(2))
    middle = Window("acme", since=minute(1), until=minute(3))
    assert retrieval_ids(store, whole) == ["r3", "r2", "r1", "r0"]
    assert retrieval_ids(store, from_one) == ["r3", "r2", "r1"]
    assert retrieval_ids(store, up_to_two) == ["r1", "r0"]
    assert retrieval_ids(store, middle) == ["r2", "r1"]
    assert store.find_retrieved_document_ids(middle) == ["doc1", "doc2"]
    assert store.find_records(Window("acme", since=minute(3), until=minute(1))) == []


def test_feedback_is_found_by_the_time_it_was_given(store: TrackerStore) -> None:
    store.record([make_record("r1")])
    store.feedback("acme", Feedback("r1", "guide", "relevant", LATER))
    assert store.find_feedback(Window("acme", until=LATER)) == []
    assert len(store.find_feedback(Window("acme", since=LATER))) == 1


def test_a_window_may_name_its_corpus(store: TrackerStore) -> None:
    store.record([make_record("r1"), make_record("r2", corpus="wiki")])
    store.feedback("acme", Feedback("r1", "guide", "relevant", LATER))
    assert retrieval_ids(store, Window("acme", corpus="wiki")) == ["r2"]
    assert store.find_feedback(Window("acme", corpus="wiki")) == []


def test_records_and_feedback_are_paged(store: TrackerStore) -> None:
    store.record([make_record(f"r{at}", after=at) for at in range(5)])
    for at in range(5):
        store.feedback("acme", Feedback(f"r{at}", "guide", "relevant", minute(at)))
    window = Window("acme")
    assert retrieval_ids(store, window, limit=2) == ["r4", "r3"]
    assert retrieval_ids(store, window, limit=2, offset=4) == ["r0"]
    found = store.find_feedback(window, limit=2, offset=2)
    assert [feedback.retrieval_id for feedback in found] == ["r2", "r1"]


def test_a_page_goes_on_behind_the_last_retrieval_whatever_is_recorded_meanwhile(
    store: TrackerStore,
) -> None:
    store.record([make_record(f"r{name}", after=1) for name in "abc"] + [make_record("old")])
    window = Window("acme")
    first = store.find_retrievals(window, limit=2)
    assert [one.retrieval_id for one in first] == ["rc", "rb"]
    assert first[0].hits == ()
    store.record([make_record("new", after=2)])
    last = (first[-1].retrieved_at, first[-1].retrieval_id)
    rest = store.find_retrievals(window, limit=9, after=last)
    assert [one.retrieval_id for one in rest] == ["ra", "old"]


def test_retrieved_documents_are_all_candidates_each_once(store: TrackerStore) -> None:
    store.record(
        [make_record("r1", documents=("b", "dropped")), make_record("r2", documents=("b", "a"))]
    )
    assert store.find_retrieved_document_ids(Window("acme")) == ["a", "b", "dropped"]


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


def test_all_documents_of_a_dropped_corpus_are_deleted_and_no_others(store: TrackerStore) -> None:
    store.record_documents("acme", "docs", [("a", None), ("b", None), ("c", None)], minute(0))
    store.record_documents("acme", "wiki", [("a", None)], minute(0))
    store.record_documents("other", "docs", [("a", None)], minute(0))
    store.delete_documents("acme", "docs", ["c"], minute(1))
    assert store.delete_corpus("acme", "docs", minute(2)) == 2
    assert store.delete_corpus("acme", "docs", minute(3)) == 0
    assert store.delete_documents("acme", "wiki", ["a"], minute(4)) == 1
    assert store.delete_documents("other", "docs", ["a"], minute(4)) == 1


def test_a_document_at_a_naive_time_is_refused(store: TrackerStore) -> None:
    with pytest.raises(InvalidInput):
        store.record_documents("acme", "docs", [("a", "A")], datetime(2026, 3, 1))
    with pytest.raises(InvalidInput):
        store.delete_documents("acme", "docs", ["a"], datetime(2026, 3, 1))


def test_the_status_shows_the_last_run_and_the_last_success(store: TrackerStore) -> None:
    assert store.retention_status() == RetentionStatus(None, None, None, None)
    good = RetentionRun(minute(0), minute(1), minute(-60), 7, None, "schedule")
    bad = RetentionRun(minute(60), minute(61), minute(0), 0, "Unavailable: no", "schedule")
    store.record_run(bad)
    store.record_run(good)  # reported late: its own time decides
    assert store.retention_status() == RetentionStatus(minute(61), minute(1), "Unavailable: no", 0)
    store.record_run(RetentionRun(minute(120), minute(121), minute(60), 3, None, "schedule"))
    assert store.retention_status() == RetentionStatus(minute(121), minute(121), None, 3)


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
