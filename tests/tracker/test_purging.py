from __future__ import annotations

from datetime import datetime

import pytest

from pipeline.errors import InvalidInput
from tests.records import comparison_of
from tests.tracker.stores import ALL, LATER, OpenStore, make_record, minute, retrieval_ids
from tracker.records import ALL_RECORDS, Counts, Feedback, PurgeCounts, Scope, Window
from tracker.store import FIRST_CHUNK, TrackerStore


def fill(store: TrackerStore) -> None:
    """Six retrievals at minutes 0 to 5, three hits each, feedback on r0 and r5, and a comparison
    of r1 and r5."""
    records = [make_record(f"r{at}", at, ("a", "b", "dropped")) for at in range(6)]
    store.record(records)
    store.record_comparisons([comparison_of(records[1]), comparison_of(records[5])])
    for retrieval_id in ("r0", "r5"):
        store.feedback("acme", Feedback(retrieval_id, "a", "relevant", LATER))


def purge(
    store: TrackerStore, cutoff: datetime, chunk: int = FIRST_CHUNK, scope: Scope = ALL_RECORDS
) -> PurgeCounts:
    """Purge step by step, as the file's owner does; return what was deleted."""
    total = PurgeCounts()
    while (step := store.purge_step(cutoff, chunk, scope)).retrievals:
        total += step
    return total


def test_a_purge_deletes_what_is_older_with_its_children(store: TrackerStore) -> None:
    fill(store)
    older = PurgeCounts(retrievals=4, hits=12, feedback=1, comparisons=1)
    assert store.count_older(minute(4)) == older
    assert purge(store, minute(4)) == older
    assert retrieval_ids(store) == ["r5", "r4"]
    assert [one.retrieval_id for one in store.find_comparisons(ALL)] == ["r5"]
    assert store.counts() == Counts(retrievals=2, hits=6, feedback=1, documents=0, comparisons=1)
    assert store.orphans() == 0
    assert purge(store, minute(4)) == PurgeCounts(0, 0, 0)


def test_a_purge_goes_by_the_retrieval_not_by_the_feedback(store: TrackerStore) -> None:
    fill(store)
    purge(store, minute(1))
    assert [one.retrieval_id for one in store.find_feedback(Window("acme"))] == ["r5"]


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 100])
def test_the_chunk_does_not_change_what_is_deleted(store: TrackerStore, chunk: int) -> None:
    fill(store)
    assert purge(store, minute(4), chunk=chunk) == PurgeCounts(4, 12, 1, 1)
    assert retrieval_ids(store) == ["r5", "r4"]
    assert store.orphans() == 0


def test_a_purge_in_steps_lets_writes_go_between(store: TrackerStore) -> None:
    fill(store)
    assert store.purge_step(minute(4), 3) == PurgeCounts(3, 9, feedback=1, comparisons=1)
    store.record([make_record("r6", 6)])
    store.feedback("acme", Feedback("r3", "b", "relevant", LATER))
    assert store.purge_step(minute(4), 3) == PurgeCounts(1, 3, feedback=1)
    assert store.purge_step(minute(4), 3) == PurgeCounts(0, 0, 0)
    store.checkpoint()
    assert retrieval_ids(store) == ["r6", "r5", "r4"]
    assert store.orphans() == 0


def test_retrievals_of_one_moment_are_purged_in_chunks_too(store: TrackerStore) -> None:
    store.record([make_record(f"r{at}") for at in range(5)])
    assert store.purge_step(minute(1), 2).retrievals == 2
    assert store.counts() == Counts(retrievals=3, hits=3, feedback=0, documents=0)
    assert store.orphans() == 0


def test_an_interrupted_purge_is_completed_by_the_next(open_store: OpenStore) -> None:
    store = open_store()
    fill(store)
    store.purge_step(minute(5), 2)
    store.close()
    store = open_store()
    assert store.orphans() == 0
    assert retrieval_ids(store) == ["r5", "r4", "r3", "r2"]
    assert purge(store, minute(5), chunk=2) == PurgeCounts(3, 9, 0)
    assert retrieval_ids(store) == ["r5"]
    assert store.orphans() == 0


def test_a_purge_refuses_what_it_cannot_mean(store: TrackerStore) -> None:
    fill(store)
    with pytest.raises(InvalidInput):
        store.purge_step(datetime(2026, 3, 2))
    with pytest.raises(InvalidInput):
        store.count_older(datetime(2026, 3, 2))
    with pytest.raises(InvalidInput):
        store.purge_step(LATER, chunk=0)
    assert store.counts().retrievals == 6


def test_a_purged_id_may_be_recorded_again(store: TrackerStore) -> None:
    fill(store)
    purge(store, LATER)
    fill(store)
    assert store.counts() == Counts(retrievals=6, hits=18, feedback=2, documents=0, comparisons=2)
    assert store.orphans() == 0


@pytest.mark.parametrize("chunk", [1, 2, FIRST_CHUNK])
def test_a_purge_of_a_tenant_leaves_all_others_alone(store: TrackerStore, chunk: int) -> None:
    fill(store)
    others = [make_record(f"o{at}", at, ("a", "b"), tenant="other") for at in range(3)]
    store.record(others)
    store.record_comparisons([comparison_of(others[0])])
    store.feedback("other", Feedback("o0", "a", "relevant", LATER))
    theirs = PurgeCounts(retrievals=2, hits=4, feedback=1, comparisons=1)
    assert store.count_older(minute(2), Scope("other")) == theirs
    assert purge(store, minute(2), chunk, Scope("other")) == theirs
    assert retrieval_ids(store, Window("other")) == ["o2"]
    assert retrieval_ids(store) == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert [one.retrieval_id for one in store.find_feedback(ALL)] == ["r5", "r0"]
    assert store.orphans() == 0
    assert purge(store, minute(2), chunk, Scope("nobody")) == PurgeCounts()


def test_a_purge_that_names_no_tenant_is_of_all(store: TrackerStore) -> None:
    fill(store)
    store.record([make_record("o0", 0, tenant="other")])
    assert store.count_older(LATER) == PurgeCounts(7, 19, 2, 2)
    assert purge(store, LATER) == PurgeCounts(7, 19, 2, 2)
    assert store.counts().retrievals == 0
