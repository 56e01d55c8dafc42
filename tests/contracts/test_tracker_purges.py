from __future__ import annotations

from datetime import datetime

import pytest

from pipeline.errors import InvalidInput
from tests.contracts.memory_tracker import Tracker
from tests.records import comparison_of
from tests.tracker.stores import ALL, LATER, make_record, minute, retrieval_ids
from tracker.records import ALL_RECORDS, Counts, Feedback, PurgeCounts, Scope, Window
from tracker.store import FIRST_CHUNK


def fill(tracker: Tracker) -> None:
    """Six retrievals at minutes 0 to 5, three hits each, feedback on r0 and r5, and a comparison
    of r1 and r5."""
    records = [make_record(f"r{at}", at, ("a", "b", "dropped")) for at in range(6)]
    tracker.record(records)
    tracker.record_comparisons([comparison_of(records[1]), comparison_of(records[5])])
    for retrieval_id in ("r0", "r5"):
        tracker.feedback("acme", Feedback(retrieval_id, "a", "relevant", LATER))


def purge(
    tracker: Tracker, cutoff: datetime, chunk: int = FIRST_CHUNK, scope: Scope = ALL_RECORDS
) -> PurgeCounts:
    """Purge step by step, as the file's owner does; return what was deleted."""
    total = PurgeCounts()
    while (step := tracker.purge_step(cutoff, chunk, scope)).retrievals:
        total += step
    return total


def test_a_purge_deletes_what_is_older_with_its_children(tracker: Tracker) -> None:
    fill(tracker)
    older = PurgeCounts(retrievals=4, hits=12, feedback=1, comparisons=1)
    assert tracker.count_older(minute(4)) == older
    assert purge(tracker, minute(4)) == older
    assert retrieval_ids(tracker) == ["r5", "r4"]
    assert [one.retrieval_id for one in tracker.find_comparisons(ALL)] == ["r5"]
    assert tracker.counts() == Counts(retrievals=2, hits=6, feedback=1, documents=0, comparisons=1)
    assert tracker.orphans() == 0
    assert purge(tracker, minute(4)) == PurgeCounts(0, 0, 0)


def test_a_purge_goes_by_the_retrieval_not_by_the_feedback(tracker: Tracker) -> None:
    fill(tracker)
    purge(tracker, minute(1))
    assert [one.retrieval_id for one in tracker.find_feedback(Window("acme"))] == ["r5"]


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 100])
def test_the_chunk_does_not_change_what_is_deleted(tracker: Tracker, chunk: int) -> None:
    fill(tracker)
    assert purge(tracker, minute(4), chunk=chunk) == PurgeCounts(4, 12, 1, 1)
    assert retrieval_ids(tracker) == ["r5", "r4"]
    assert tracker.orphans() == 0


def test_a_purge_in_steps_lets_writes_go_between(tracker: Tracker) -> None:
    fill(tracker)
    assert tracker.purge_step(minute(4), 3) == PurgeCounts(3, 9, feedback=1, comparisons=1)
    tracker.record([make_record("r6", 6)])
    tracker.feedback("acme", Feedback("r3", "b", "relevant", LATER))
    assert tracker.purge_step(minute(4), 3) == PurgeCounts(1, 3, feedback=1)
    assert tracker.purge_step(minute(4), 3) == PurgeCounts(0, 0, 0)
    tracker.checkpoint()
    assert retrieval_ids(tracker) == ["r6", "r5", "r4"]
    assert tracker.orphans() == 0


def test_retrievals_of_one_moment_are_purged_in_chunks_too(tracker: Tracker) -> None:
    tracker.record([make_record(f"r{at}") for at in range(5)])
    assert tracker.purge_step(minute(1), 2).retrievals == 2
    assert tracker.counts() == Counts(retrievals=3, hits=3, feedback=0, documents=0)
    assert tracker.orphans() == 0


def test_a_purge_refuses_what_it_cannot_mean(tracker: Tracker) -> None:
    fill(tracker)
    with pytest.raises(InvalidInput):
        tracker.purge_step(datetime(2026, 3, 2))
    with pytest.raises(InvalidInput):
        tracker.count_older(datetime(2026, 3, 2))
    with pytest.raises(InvalidInput):
        tracker.purge_step(LATER, chunk=0)
    assert tracker.counts().retrievals == 6


def test_a_purged_id_may_be_recorded_again(tracker: Tracker) -> None:
    fill(tracker)
    purge(tracker, LATER)
    fill(tracker)
    assert tracker.counts() == Counts(retrievals=6, hits=18, feedback=2, documents=0, comparisons=2)
    assert tracker.orphans() == 0


@pytest.mark.parametrize("chunk", [1, 2, FIRST_CHUNK])
def test_a_purge_of_a_tenant_leaves_all_others_alone(tracker: Tracker, chunk: int) -> None:
    fill(tracker)
    others = [make_record(f"o{at}", at, ("a", "b"), tenant="other") for at in range(3)]
    tracker.record(others)
    tracker.record_comparisons([comparison_of(others[0])])
    tracker.feedback("other", Feedback("o0", "a", "relevant", LATER))
    theirs = PurgeCounts(retrievals=2, hits=4, feedback=1, comparisons=1)
    assert tracker.count_older(minute(2), Scope("other")) == theirs
    assert purge(tracker, minute(2), chunk, Scope("other")) == theirs
    assert retrieval_ids(tracker, Window("other")) == ["o2"]
    assert retrieval_ids(tracker) == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert [one.retrieval_id for one in tracker.find_feedback(ALL)] == ["r5", "r0"]
    assert tracker.orphans() == 0
    assert purge(tracker, minute(2), chunk, Scope("nobody")) == PurgeCounts()


def test_a_purge_that_names_no_tenant_is_of_all(tracker: Tracker) -> None:
    fill(tracker)
    tracker.record([make_record("o0", 0, tenant="other")])
    assert tracker.count_older(LATER) == PurgeCounts(7, 19, 2, 2)
    assert purge(tracker, LATER) == PurgeCounts(7, 19, 2, 2)
    assert tracker.counts().retrievals == 0


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_a_purge_keeps_to_its_scope(tracker: Tracker, chunk: int) -> None:
    """Of tenants acme and other, corpora docs and wiki, three retrievals each."""
    names = [(tenant, corpus) for tenant in ("acme", "other") for corpus in ("docs", "wiki")]
    for tenant, corpus in names:
        for at in range(3):
            record = make_record(
                f"{tenant}-{corpus}-{at}", at, ("a", "b"), tenant=tenant, corpus=corpus
            )
            tracker.record([record])
            tracker.feedback(tenant, Feedback(record.retrieval_id, "a", "relevant", LATER))

    def left() -> list[int]:
        windows = [Window(tenant, corpus) for tenant, corpus in names]
        return [len(tracker.find_records(window)) for window in windows]

    assert purge(tracker, minute(1), chunk, Scope("acme", "docs")) == PurgeCounts(1, 2, 1)
    assert left() == [2, 3, 3, 3]
    assert purge(tracker, minute(1), chunk, Scope(corpus="docs")) == PurgeCounts(1, 2, 1)
    assert left() == [2, 3, 2, 3]
    general = Scope(but=(("acme", None), ("other", "wiki")))
    assert tracker.count_older(LATER, general) == PurgeCounts(2, 4, 2)
    assert purge(tracker, LATER, chunk, general) == PurgeCounts(2, 4, 2)
    assert left() == [2, 3, 0, 3]
    assert purge(tracker, LATER, chunk, Scope("acme", but=((None, "docs"),))).retrievals == 3
    assert left() == [2, 0, 0, 3]
    assert tracker.orphans() == 0
