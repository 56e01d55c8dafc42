from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.errors import InvalidInput
from tests.records import comparison_of
from tests.tracker.stores import ALL, LATER, OpenStore, make_record, minute
from tracker.records import Counts, Window
from tracker.store import TrackerStore

R1 = make_record("r1")


def test_comparisons_come_back_unchanged_newest_first_and_then_by_model(
    store: TrackerStore,
) -> None:
    later = make_record("r2", after=1)
    store.record([R1, later])
    failed = replace(
        comparison_of(R1, "jina/reranker-v2"),
        pairs=0,
        kendall=None,
        overlap=None,
        latency_ms=None,
        error="the reranker is down",
    )
    batch = [failed, comparison_of(R1), comparison_of(later)]
    assert store.record_comparisons(batch) == []
    assert store.find_comparisons(ALL) == [comparison_of(later), comparison_of(R1), failed]
    assert store.counts() == Counts(retrievals=2, hits=2, feedback=0, documents=0, comparisons=3)
    assert store.orphans() == 0


def test_a_comparison_that_overtakes_its_retrieval_is_named_and_may_come_again(
    store: TrackerStore,
) -> None:
    late = make_record("r2")
    store.record([R1])
    batch = [comparison_of(late), comparison_of(R1), comparison_of(late, "jina/reranker-v2")]
    assert store.record_comparisons(batch) == ["r2"]
    assert store.find_comparisons(ALL) == [comparison_of(R1)]
    store.record([late])
    assert store.record_comparisons(batch) == []
    assert store.counts().comparisons == 3
    assert store.orphans() == 0


def test_a_comparison_of_a_purged_retrieval_leaves_no_orphan(store: TrackerStore) -> None:
    store.record([R1])
    store.purge_step(LATER)
    assert store.record_comparisons([comparison_of(R1)]) == ["r1"]
    assert store.counts() == Counts(0, 0, 0, 0)


def test_a_comparison_of_a_retrieval_and_a_model_is_stored_once(store: TrackerStore) -> None:
    store.record([R1])
    again = replace(comparison_of(R1), kendall=-1.0)
    assert store.record_comparisons([comparison_of(R1), again]) == []
    assert store.record_comparisons([again]) == []
    assert store.find_comparisons(ALL) == [comparison_of(R1)]


def test_none_at_all_is_no_error(store: TrackerStore) -> None:
    assert store.record_comparisons([]) == []
    assert store.find_comparisons(ALL) == []


def test_a_comparison_is_kept_under_its_retrievals_corpus_and_time(store: TrackerStore) -> None:
    store.record([R1])
    store.record_comparisons([replace(comparison_of(R1), corpus="wiki", retrieved_at=minute(9))])
    assert store.find_comparisons(ALL) == [comparison_of(R1)]
    assert store.purge_step(minute(1)).comparisons == 1
    assert store.orphans() == 0


def test_a_tenant_can_neither_compare_nor_see_anothers_retrieval(store: TrackerStore) -> None:
    store.record([R1])
    assert store.record_comparisons([replace(comparison_of(R1), tenant="other")]) == ["r1"]
    store.record_comparisons([comparison_of(R1)])
    assert store.find_comparisons(Window("other")) == []
    assert store.find_comparisons(ALL) == [comparison_of(R1)]


def test_comparisons_are_windowed_by_their_retrievals_and_paged(store: TrackerStore) -> None:
    records = [make_record(f"r{at}", after=at) for at in range(4)]
    records.append(make_record("w", corpus="wiki"))
    store.record(records)
    store.record_comparisons([comparison_of(record) for record in records])

    def found(window: Window, **page: int) -> list[str]:
        return [one.retrieval_id for one in store.find_comparisons(window, **page)]

    assert found(Window("acme", since=minute(1), until=minute(3))) == ["r2", "r1"]
    assert found(Window("acme", "wiki")) == ["w"]
    assert found(Window("acme", "docs"), limit=2, offset=1) == ["r2", "r1"]


def test_a_value_that_cannot_be_stored_is_refused_and_nothing_else_is_lost(
    store: TrackerStore,
) -> None:
    store.record([R1])
    with pytest.raises(InvalidInput) as refused:
        store.record_comparisons([replace(comparison_of(R1), error="secret \ud800")])
    assert "secret" not in refused.value.message
    assert store.record_comparisons([comparison_of(R1)]) == []


def test_comparisons_outlive_their_process(open_store: OpenStore) -> None:
    store = open_store()
    store.record([R1])
    store.record_comparisons([comparison_of(R1)])
    store.close()
    assert open_store().find_comparisons(ALL) == [comparison_of(R1)]
