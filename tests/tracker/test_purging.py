"""What a purge owes to the file and to who else writes; what it deletes is in the contract."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.tracking_data import fill
from tests.tracker.stores import OpenStore, make_record, minute, retrieval_ids
from tracker.purging import LARGEST_CHUNK, SMALLEST_CHUNK, next_chunk
from tracker.records import PurgeCounts


def test_an_interrupted_purge_is_completed_by_the_next(open_store: OpenStore) -> None:
    store = open_store()
    store.record([make_record(f"r{at}", at, ("a", "b")) for at in range(6)])
    assert store.purge_step(minute(5), 2) == PurgeCounts(2, 4)
    store.close()
    store = open_store()
    assert store.orphans() == 0
    assert retrieval_ids(store) == ["r5", "r4", "r3", "r2"]
    assert [store.purge_step(minute(5), 2).retrievals for _ in range(3)] == [2, 1, 0]
    assert retrieval_ids(store) == ["r5"]
    assert store.orphans() == 0


@pytest.mark.slow
def test_a_file_that_is_purged_and_filled_again_and_again_does_not_grow(
    open_store: OpenStore, path: Path
) -> None:
    sizes: list[int] = []
    for round_ in range(6):
        fill(path, 15_000, minute(15_000 * round_), timedelta(minutes=15_000))
        sizes.append(path.stat().st_size)
        store = open_store()
        while store.purge_step(minute(15_000 * round_), 15_000).retrievals:
            pass
        assert store.counts().retrievals == 15_000
        store.checkpoint()
        store.close()
    assert sizes[-1] < 1.25 * sizes[1]  # there is room for what is purged and what is not


@pytest.mark.parametrize(
    ("chunk", "seconds", "expected"),
    [
        (1000, 0.06, 1000),
        (1000, 0.12, 500),
        (1000, 0.048, 1250),
        (1000, 0.0, 1500),  # it grows slowly
        (60, 10.0, SMALLEST_CHUNK),
        (19_000, 0.01, LARGEST_CHUNK),
    ],
)
def test_a_step_is_as_large_as_keeps_the_others_wait_short(
    chunk: int, seconds: float, expected: int
) -> None:
    assert next_chunk(chunk, seconds) == expected
