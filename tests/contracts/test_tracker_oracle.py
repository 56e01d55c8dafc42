"""Whatever is done in whatever order, the tracker on DuckDB answers as its oracle in memory."""

from __future__ import annotations

import tempfile
from contextlib import closing, suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import NotFound
from tests.contracts.memory_tracker import MemoryTracker, Tracker
from tests.records import comparison_of
from tests.tracker.stores import make_record, minute
from tracker.records import OUTCOMES, Feedback, Scope, Window
from tracker.store import TrackerStore

IDS = st.integers(0, 7)
MINUTES = st.integers(0, 5)
TENANTS = st.sampled_from(["acme", "other"])
CORPORA = st.sampled_from(["docs", "wiki"])
NAMES = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("record"), IDS, MINUTES, TENANTS, CORPORA),
    st.tuples(st.just("judge"), IDS, TENANTS, NAMES, st.sampled_from(OUTCOMES), MINUTES),
    st.tuples(st.just("compare"), IDS, TENANTS),
    st.tuples(
        st.just("purge"), MINUTES, st.integers(1, 3), st.none() | TENANTS, st.none() | CORPORA
    ),
    st.tuples(st.just("checkpoint")),
)


def perform(tracker: Tracker, step: tuple[object, ...]) -> object:
    """Do one step, and return what it answers."""
    match step:
        case ("record", int(number), int(at), str(tenant), str(corpus)):
            one = make_record(f"r{number}", at, ("a", "dropped"), tenant=tenant, corpus=corpus)
            return tracker.record([one])
        case ("judge", int(number), str(tenant), str(name), outcome, int(at)):
            judged = Feedback(f"r{number}", name, outcome, minute(at))  # type: ignore[arg-type]
            with suppress(NotFound):
                return tracker.feedback(tenant, judged)
            return "not found"
        case ("compare", int(number), str(tenant)):
            return tracker.record_comparisons(
                [comparison_of(make_record(f"r{number}", tenant=tenant))]
            )
        case ("purge", int(at), int(chunk), tenant, corpus):
            scope = Scope(tenant, corpus, (("other", "wiki"),))  # type: ignore[arg-type]
            total = 0
            while step_ := tracker.purge_step(minute(at), chunk, scope).retrievals:
                total += step_
            return total
        case _:
            tracker.checkpoint()
            return None


def state(tracker: Tracker) -> list[object]:
    windows = [
        Window(tenant, corpus, since, None)
        for tenant in ("acme", "other")
        for corpus in (None, "docs")
        for since in (None, minute(2))
    ]
    return [
        [
            tracker.find_records(window),
            tracker.find_feedback(window),
            tracker.find_comparisons(window),
            tracker.find_judged_scores(window),
            tracker.find_retrieved_document_ids(window),
        ]
        for window in windows
    ] + [tracker.counts(), tracker.orphans()]


@settings(max_examples=12, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_the_tracker_does_what_its_oracle_does(steps: list[tuple[object, ...]]) -> None:
    oracle = MemoryTracker()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tracker.duckdb"
        with closing(TrackerStore.open(path, memory_limit="256MB", threads=1)) as store:
            for step in steps:
                assert perform(store, step) == perform(oracle, step)
            assert state(store) == state(oracle)
