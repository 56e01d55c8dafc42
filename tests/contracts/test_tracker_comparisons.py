from __future__ import annotations

from dataclasses import replace

from tests.contracts.memory_tracker import Tracker
from tests.records import comparison_of
from tests.tracker.stores import ALL, LATER, make_record, minute
from tracker.records import Counts, Window

R1 = make_record("r1")


def test_comparisons_come_back_unchanged_newest_first_and_then_by_model(
    tracker: Tracker,
) -> None:
    later = make_record("r2", after=1)
    tracker.record([R1, later])
    failed = replace(
        comparison_of(R1, "jina/reranker-v2"),
        pairs=0,
        kendall=None,
        overlap=None,
        latency_ms=None,
        error="the reranker is down",
    )
    batch = [failed, comparison_of(R1), comparison_of(later)]
    assert tracker.record_comparisons(batch) == []
    assert tracker.find_comparisons(ALL) == [comparison_of(later), comparison_of(R1), failed]
    assert tracker.counts() == Counts(retrievals=2, hits=2, feedback=0, documents=0, comparisons=3)
    assert tracker.orphans() == 0


def test_a_comparison_that_overtakes_its_retrieval_is_named_and_may_come_again(
    tracker: Tracker,
) -> None:
    late = make_record("r2")
    tracker.record([R1])
    batch = [comparison_of(late), comparison_of(R1), comparison_of(late, "jina/reranker-v2")]
    assert tracker.record_comparisons(batch) == ["r2"]
    assert tracker.find_comparisons(ALL) == [comparison_of(R1)]
    tracker.record([late])
    assert tracker.record_comparisons(batch) == []
    assert tracker.counts().comparisons == 3
    assert tracker.orphans() == 0


def test_a_comparison_of_a_purged_retrieval_leaves_no_orphan(tracker: Tracker) -> None:
    tracker.record([R1])
    tracker.purge_step(LATER)
    assert tracker.record_comparisons([comparison_of(R1)]) == ["r1"]
    assert tracker.counts() == Counts(0, 0, 0, 0)


def test_a_comparison_of_a_retrieval_and_a_model_is_stored_once(tracker: Tracker) -> None:
    tracker.record([R1])
    again = replace(comparison_of(R1), kendall=-1.0)
    assert tracker.record_comparisons([comparison_of(R1), again]) == []
    assert tracker.record_comparisons([again]) == []
    assert tracker.find_comparisons(ALL) == [comparison_of(R1)]


def test_none_at_all_is_no_error(tracker: Tracker) -> None:
    assert tracker.record_comparisons([]) == []
    assert tracker.find_comparisons(ALL) == []


def test_a_comparison_is_kept_under_its_retrievals_corpus_and_time(tracker: Tracker) -> None:
    tracker.record([R1])
    tracker.record_comparisons([replace(comparison_of(R1), corpus="wiki", retrieved_at=minute(9))])
    assert tracker.find_comparisons(ALL) == [comparison_of(R1)]
    assert tracker.purge_step(minute(1)).comparisons == 1
    assert tracker.orphans() == 0


def test_a_tenant_can_neither_compare_nor_see_anothers_retrieval(tracker: Tracker) -> None:
    tracker.record([R1])
    assert tracker.record_comparisons([replace(comparison_of(R1), tenant="other")]) == ["r1"]
    tracker.record_comparisons([comparison_of(R1)])
    assert tracker.find_comparisons(Window("other")) == []
    assert tracker.find_comparisons(ALL) == [comparison_of(R1)]


def test_comparisons_are_windowed_by_their_retrievals_and_paged(tracker: Tracker) -> None:
    records = [make_record(f"r{at}", after=at) for at in range(4)]
    records.append(make_record("w", corpus="wiki"))
    tracker.record(records)
    tracker.record_comparisons([comparison_of(record) for record in records])

    def found(window: Window, **page: int) -> list[str]:
        return [one.retrieval_id for one in tracker.find_comparisons(window, **page)]

    assert found(Window("acme", since=minute(1), until=minute(3))) == ["r2", "r1"]
    assert found(Window("acme", "wiki")) == ["w"]
    assert found(Window("acme", "docs"), limit=2, offset=1) == ["r2", "r1"]
