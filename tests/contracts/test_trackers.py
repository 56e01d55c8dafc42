"""What every tracker does: the one on DuckDB, and its oracle in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from pipeline.errors import InvalidInput, NotFound
from tests.contracts.memory_tracker import Tracker
from tests.tracker.stores import LATER, make_record, minute, retrieval_ids
from tracker.records import (
    Counts,
    Feedback,
    RetentionRun,
    RetentionStatus,
    TrackedRetrieval,
    Window,
)


def test_what_was_recorded_comes_back_unchanged(tracker: Tracker) -> None:
    record = make_record("r1", documents=("guide", "manual", "dropped"))
    assert tracker.record([record]) == 1
    assert tracker.find_records(Window("acme")) == [record]
    assert tracker.get_record("acme", "r1") == TrackedRetrieval(record, ())


def test_a_batch_comes_back_with_each_hit_under_its_retrieval(tracker: Tracker) -> None:
    first = make_record("r1", 1, ("guide", "dropped"))
    second = make_record("r2", 2, ())
    third = make_record("r3", 3, ("dropped", "manual", "guide"), corpus="wiki")
    assert tracker.record([first, second, third]) == 3
    assert tracker.find_records(Window("acme")) == [third, second, first]


def test_what_is_not_there_stays_none_and_empty(tracker: Tracker) -> None:
    record = replace(
        make_record("r1", documents=()), verdict=None, model=None, degraded=(), timings_ms={}
    )
    tracker.record([record])
    assert tracker.find_records(Window("acme")) == [record]


def test_a_retrieval_is_stored_once_with_its_hits(tracker: Tracker) -> None:
    assert tracker.record([make_record("r1"), make_record("r2")]) == 2
    assert tracker.record([make_record("r2"), make_record("r3"), make_record("r3")]) == 1
    assert tracker.record([make_record("r1")]) == 0
    assert tracker.record([]) == 0
    assert tracker.counts() == Counts(retrievals=3, hits=3, feedback=0, documents=0)


def test_the_first_of_two_with_one_id_counts(tracker: Tracker) -> None:
    first = make_record("r1", documents=("guide",))
    tracker.record([first, make_record("r1", documents=("manual", "other"))])
    assert tracker.find_records(Window("acme")) == [first]


def test_hits_keep_their_order(tracker: Tracker) -> None:
    documents = tuple(f"doc{number}" for number in (3, 1, 2, 11, 10))
    tracker.record([make_record("r1", documents=documents)])
    (record,) = tracker.find_records(Window("acme"))
    assert tuple(hit.document_id for hit in record.hits) == documents


def test_feedback_is_stored_and_replaced(tracker: Tracker) -> None:
    tracker.record([make_record("r1", documents=("guide", "manual"))])
    tracker.feedback("acme", Feedback("r1", "guide", "relevant", minute(1)))
    tracker.feedback("acme", Feedback("r1", "manual", "not_relevant", minute(2)))
    tracker.feedback("acme", Feedback("r1", "guide", "highly_relevant", minute(3)))
    kept = [
        Feedback("r1", "guide", "highly_relevant", minute(3)),
        Feedback("r1", "manual", "not_relevant", minute(2)),
    ]
    assert tracker.find_feedback(Window("acme")) == kept
    assert tracker.get_record("acme", "r1").feedback == (kept[1], kept[0])


def test_a_dropped_candidate_is_a_known_document(tracker: Tracker) -> None:
    tracker.record([make_record("r1", documents=("guide", "dropped"))])
    tracker.feedback("acme", Feedback("r1", "dropped", "relevant", LATER))
    assert tracker.find_feedback(Window("acme")) == [Feedback("r1", "dropped", "relevant", LATER)]


@pytest.mark.parametrize(
    ("tenant", "retrieval_id", "document_id", "param"),
    [
        ("acme", "r9", "guide", "retrieval_id"),
        ("other", "r1", "guide", "retrieval_id"),
        ("acme", "r1", "manual", "document_id"),  # a candidate of r2 only
    ],
)
def test_feedback_on_the_unknown_is_not_found(
    tracker: Tracker,
    tenant: str,
    retrieval_id: str,
    document_id: str,
    param: str,
) -> None:
    tracker.record([make_record("r1"), make_record("r2", documents=("manual",))])
    with pytest.raises(NotFound) as missing:
        tracker.feedback(tenant, Feedback(retrieval_id, document_id, "relevant", LATER))
    assert missing.value.param == param
    assert tracker.counts().feedback == 0
    assert tracker.record([make_record("r3")]) == 1  # the failed transaction is over


def test_tenants_see_only_their_own(tracker: Tracker) -> None:
    tracker.record(
        [
            make_record("r1", tenant="a_b", corpus="c", documents=("one",)),
            make_record("r2", tenant="a", corpus="b_c", documents=("two",)),
        ]
    )
    tracker.feedback("a", Feedback("r2", "two", "relevant", LATER))
    assert retrieval_ids(tracker, Window("a")) == ["r2"]
    assert retrieval_ids(tracker, Window("a_b")) == ["r1"]
    assert tracker.find_feedback(Window("a_b")) == []
    assert tracker.find_retrieved_document_ids(Window("a_b")) == ["one"]
    with pytest.raises(NotFound):
        tracker.get_record("a", "r1")


def test_windows_are_half_open_and_bounds_may_be_open(tracker: Tracker) -> None:
    tracker.record([make_record(f"r{at}", after=at, documents=(f"doc{at}",)) for at in range(4)])
    whole = Window("acme")
    from_one = Window("acme", since=minute(1))
    up_to_two = Window("acme", until=minute(2))
    middle = Window("acme", since=minute(1), until=minute(3))
    assert retrieval_ids(tracker, whole) == ["r3", "r2", "r1", "r0"]
    assert retrieval_ids(tracker, from_one) == ["r3", "r2", "r1"]
    assert retrieval_ids(tracker, up_to_two) == ["r1", "r0"]
    assert retrieval_ids(tracker, middle) == ["r2", "r1"]
    assert tracker.find_retrieved_document_ids(middle) == ["doc1", "doc2"]
    assert tracker.find_records(Window("acme", since=minute(3), until=minute(1))) == []


def test_feedback_is_found_by_the_time_it_was_given(tracker: Tracker) -> None:
    tracker.record([make_record("r1")])
    tracker.feedback("acme", Feedback("r1", "guide", "relevant", LATER))
    assert tracker.find_feedback(Window("acme", until=LATER)) == []
    assert len(tracker.find_feedback(Window("acme", since=LATER))) == 1


def test_a_window_may_name_its_corpus(tracker: Tracker) -> None:
    tracker.record([make_record("r1"), make_record("r2", corpus="wiki")])
    tracker.feedback("acme", Feedback("r1", "guide", "relevant", LATER))
    assert retrieval_ids(tracker, Window("acme", corpus="wiki")) == ["r2"]
    assert tracker.find_feedback(Window("acme", corpus="wiki")) == []


def test_records_and_feedback_are_paged(tracker: Tracker) -> None:
    tracker.record([make_record(f"r{at}", after=at) for at in range(5)])
    for at in range(5):
        tracker.feedback("acme", Feedback(f"r{at}", "guide", "relevant", minute(at)))
    window = Window("acme")
    assert retrieval_ids(tracker, window, limit=2) == ["r4", "r3"]
    assert retrieval_ids(tracker, window, limit=2, offset=4) == ["r0"]
    found = tracker.find_feedback(window, limit=2, offset=2)
    assert [feedback.retrieval_id for feedback in found] == ["r2", "r1"]


def test_a_page_goes_on_behind_the_last_retrieval_whatever_is_recorded_meanwhile(
    tracker: Tracker,
) -> None:
    tracker.record([make_record(f"r{name}", after=1) for name in "abc"] + [make_record("old")])
    window = Window("acme")
    first = tracker.find_retrievals(window, limit=2)
    assert [one.retrieval_id for one in first] == ["rc", "rb"]
    assert first[0].hits == ()
    tracker.record([make_record("new", after=2)])
    last = (first[-1].retrieved_at, first[-1].retrieval_id)
    rest = tracker.find_retrievals(window, limit=9, after=last)
    assert [one.retrieval_id for one in rest] == ["ra", "old"]


def test_retrieved_documents_are_all_candidates_each_once(tracker: Tracker) -> None:
    tracker.record(
        [make_record("r1", documents=("b", "dropped")), make_record("r2", documents=("b", "a"))]
    )
    assert tracker.find_retrieved_document_ids(Window("acme")) == ["a", "b", "dropped"]


def test_all_documents_of_a_dropped_corpus_are_deleted_and_no_others(tracker: Tracker) -> None:
    tracker.record_documents("acme", "docs", [("a", None), ("b", None), ("c", None)], minute(0))
    tracker.record_documents("acme", "wiki", [("a", None)], minute(0))
    tracker.record_documents("other", "docs", [("a", None)], minute(0))
    tracker.delete_documents("acme", "docs", ["c"], minute(1))
    assert tracker.delete_corpus("acme", "docs", minute(2)) == 2
    assert tracker.delete_corpus("acme", "docs", minute(3)) == 0
    assert tracker.delete_documents("acme", "wiki", ["a"], minute(4)) == 1
    assert tracker.delete_documents("other", "docs", ["a"], minute(4)) == 1


def test_a_document_at_a_naive_time_is_refused(tracker: Tracker) -> None:
    with pytest.raises(InvalidInput):
        tracker.record_documents("acme", "docs", [("a", "A")], datetime(2026, 3, 1))
    with pytest.raises(InvalidInput):
        tracker.delete_documents("acme", "docs", ["a"], datetime(2026, 3, 1))


def test_the_status_shows_the_last_run_and_the_last_success(tracker: Tracker) -> None:
    assert tracker.retention_status() == RetentionStatus(None, None, None, None)
    good = RetentionRun(minute(0), minute(1), minute(-60), 7, None, "schedule")
    bad = RetentionRun(minute(60), minute(61), minute(0), 0, "Unavailable: no", "schedule")
    tracker.record_run(bad)
    tracker.record_run(good)  # reported late: its own time decides
    assert tracker.retention_status() == RetentionStatus(
        minute(61), minute(1), "Unavailable: no", 0
    )
    tracker.record_run(RetentionRun(minute(120), minute(121), minute(60), 3, None, "schedule"))
    assert tracker.retention_status() == RetentionStatus(minute(121), minute(121), None, 3)


def test_a_batch_of_judgements_is_stored_but_for_those_of_the_unknown(tracker: Tracker) -> None:
    tracker.record([make_record("r1", 0, ("a", "b")), make_record("r2", 60 * 24 * 30, ("a",))])
    tracker.feedback("acme", Feedback("r1", "b", "relevant", minute(0)))
    answers = tracker.feedback_batch(
        [
            ("acme", Feedback("r1", "a", "relevant", minute(1))),
            ("acme", Feedback("r9", "a", "relevant", minute(2))),
            ("other", Feedback("r1", "a", "relevant", minute(3))),
            ("acme", Feedback("r2", "b", "relevant", minute(4))),
            ("acme", Feedback("r2", "a", "not_relevant", minute(5))),
            ("acme", Feedback("r1", "b", "not_relevant", minute(6))),
            ("acme", Feedback("r1", "a", "highly_relevant", minute(7))),
        ]
    )
    assert [None if one is None else one.param for one in answers] == [
        None,
        "retrieval_id",
        "retrieval_id",
        "document_id",
        None,
        None,
        None,
    ]
    assert tracker.find_feedback(Window("acme")) == [
        Feedback("r1", "a", "highly_relevant", minute(7)),
        Feedback("r1", "b", "not_relevant", minute(6)),
        Feedback("r2", "a", "not_relevant", minute(5)),
    ]


def test_no_judgement_at_all_is_no_error(tracker: Tracker) -> None:
    assert tracker.feedback_batch([]) == []


def test_a_round_succeeded_if_all_its_runs_did(tracker: Tracker) -> None:
    def run(at: float, end: float, deleted: int, error: str | None, tenant: str | None) -> None:
        tracker.record_run(
            RetentionRun(minute(at), minute(end), minute(0), deleted, error, "schedule", tenant)
        )

    run(1, 2, 5, None, None)
    run(1, 3, 2, None, "acme")
    assert tracker.retention_status() == RetentionStatus(minute(3), minute(3), None, 7)
    run(60, 61, 4, None, None)
    run(60, 62, 0, "Unavailable: no", "acme")
    assert tracker.retention_status() == RetentionStatus(
        minute(62), minute(3), "Unavailable: no", 4
    )
