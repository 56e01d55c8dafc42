from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from deployments.inference.batching import Batcher
from deployments.inference.score_cache import RawScore, ScoreCache
from deployments.inference.tokens import EncodedPair
from deployments.inference.work import Work, pick_batch
from pipeline.errors import Overloaded
from pipeline.scoring import Pair


class WordModel:
    """A pair's logit is its text's number of words; remembers the lengths of every batch."""

    max_tokens = 512

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()

    def encode(self, query: str, texts: Sequence[str]) -> list[EncodedPair]:
        return [encoded(len(text.split())) for text in texts]

    def logits(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        self.entered.set()
        assert self.go.wait(timeout=30)
        lengths = [pair.length for pair in batch]
        self.batches.append(lengths)
        if 13 in lengths:
            raise RuntimeError("poisoned")
        return np.array([np.nan if length == 7 else length for length in lengths], np.float32)


def encoded(length: int) -> EncodedPair:
    return EncodedPair(np.zeros(length, np.int32), np.zeros(length, np.int32), False)


def pairs(*lengths: int) -> list[Pair]:
    return [Pair(f"digest {length}", "w " * length) for length in lengths]


@pytest.fixture
async def batcher() -> AsyncIterator[Batcher]:
    owner = Batcher(WordModel(), ScoreCache(400 * 100), max_batch_tokens=64)
    owner.start()
    yield owner
    await owner.close()


def model_of(batcher: Batcher) -> WordModel:
    assert isinstance(batcher.model, WordModel)
    return batcher.model


async def test_outcomes_come_in_the_order_of_the_pairs(batcher: Batcher) -> None:
    outcomes = await batcher.score("t", "q", pairs(9, 1, 5), 10)
    assert [o.score.logit for o in outcomes if o.score] == [9.0, 1.0, 5.0]
    assert [o.origin for o in outcomes] == ["pass"] * 3


async def test_a_repeat_is_answered_from_the_cache(batcher: Batcher) -> None:
    await batcher.score("t", "q", pairs(3), 10)
    (again,) = await batcher.score("t", "q", pairs(3), 10)
    assert (again.origin, again.score) == ("cache", RawScore(3.0, False, 3))
    assert batcher.counters.pairs_scored == 1


async def test_another_tenant_never_meets_the_first_ones_cache(batcher: Batcher) -> None:
    await batcher.score("t", "q", pairs(3), 10)
    (other,) = await batcher.score("u", "q", pairs(3), 10)
    assert other.origin == "pass"


async def test_identical_pairs_in_flight_share_one_pass(batcher: Batcher) -> None:
    answers = await asyncio.gather(*(batcher.score("t", "q", pairs(3, 4), 10) for _ in range(16)))
    assert batcher.counters.pairs_scored == 2
    assert [o.origin for outcomes in answers for o in outcomes].count("shared") == 30
    assert all([o.score.logit for o in one if o.score] == [3.0, 4.0] for one in answers)


async def test_a_poisoned_pair_fails_alone(batcher: Batcher) -> None:
    outcomes = await batcher.score("t", "q", pairs(12, 13, 14), 10)
    assert [o.score.logit if o.score else o.reason for o in outcomes] == [
        12.0,
        "the model failed on this pair",
        14.0,
    ]


async def test_a_non_finite_logit_is_not_a_score_and_is_not_cached(batcher: Batcher) -> None:
    outcomes = await batcher.score("t", "q", pairs(7, 8), 10)
    assert [o.reason for o in outcomes] == ["the model gave a non-finite logit", None]
    (again,) = await batcher.score("t", "q", pairs(7), 10)
    assert (again.score, again.origin) == (None, None)


async def test_batches_hold_neighbours_in_length_under_the_token_budget(batcher: Batcher) -> None:
    await batcher.score("t", "q", pairs(*range(1, 33), *range(40, 60)), 10)
    assert all(len(batch) * max(batch) <= 64 for batch in model_of(batcher).batches)
    assert 1 - batcher.counters.tokens / batcher.counters.padded_tokens < 0.3


async def test_time_that_is_up_gives_a_reason_and_keeps_what_arrived(batcher: Batcher) -> None:
    await batcher.score("t", "q", pairs(2), 10)
    model_of(batcher).go.clear()
    outcomes = await batcher.score("t", "q", pairs(2, 3), 0.05)
    model_of(batcher).go.set()
    assert [o.reason for o in outcomes] == [None, "not scored in time"]


async def test_work_nobody_waits_for_is_dropped_before_it_runs(batcher: Batcher) -> None:
    model = model_of(batcher)
    model.go.clear()
    blocking = asyncio.create_task(batcher.score("t", "q", pairs(2), 30))
    await asyncio.to_thread(model.entered.wait, 30)
    gone = asyncio.create_task(batcher.score("t", "q", pairs(20), 30))
    await asyncio.sleep(0.05)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    model.go.set()
    await blocking
    await batcher.score("t", "q", pairs(5), 10)
    assert [20] not in model.batches
    assert (batcher.counters.pairs_dropped, batcher.queued_tokens) == (1, 0)


async def test_clients_that_leave_in_flight_hold_up_nobody_and_leave_nothing_behind(
    batcher: Batcher,
) -> None:
    asking = [
        asyncio.create_task(batcher.score("t", f"q{n}", pairs(n % 12 + 1, n % 5 + 15), 30))
        for n in range(200)
    ]
    await asyncio.sleep(0.01)
    for task in asking[::2]:
        task.cancel()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    for number, answer in enumerate(answers):
        if isinstance(answer, BaseException):
            assert number % 2 == 0
        else:
            logits = [o.score.logit if o.score else None for o in answer]
            short = number % 12 + 1
            assert logits == [None if short == 7 else short, number % 5 + 15]
    (last,) = await batcher.score("t", "last", pairs(3), 10)
    assert last.score is not None
    assert batcher.queued_tokens == 0


async def test_the_oldest_pair_is_always_in_the_next_batch() -> None:
    loop = asyncio.get_running_loop()
    works = [
        Work("t", pair, 1, loop.create_future(), 1, encoded(length))
        for length, pair in zip((50, 1, 2, 3, 49), pairs(50, 1, 2, 3, 49), strict=True)
    ]
    assert [work.length for work in pick_batch(works, 100)] == [49, 50]
    assert [work.length for work in pick_batch(works, 10)] == [50]
    assert [work.length for work in pick_batch(works[1:], 12)] == [1, 2, 3]


async def test_over_the_admission_bound_is_overloaded_and_a_lone_large_request_is_not() -> None:
    batcher = Batcher(WordModel(), ScoreCache(0), max_queued_tokens=100)
    batcher.start()
    model_of(batcher).go.clear()
    large = asyncio.create_task(batcher.score("t", "q", pairs(*range(20, 60)), 30))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded) as refused:
        await batcher.score("t", "q", pairs(300), 30)
    assert refused.value.retry_after_s == 1
    model_of(batcher).go.set()
    assert all(outcome.score for outcome in await large)
    await batcher.close()


async def test_a_cache_of_no_bytes_is_off() -> None:
    batcher = Batcher(WordModel(), ScoreCache(0))
    batcher.start()
    for _ in range(2):
        (outcome,) = await batcher.score("t", "q", pairs(3), 10)
        assert outcome.origin == "pass"
    await batcher.close()


def test_the_cache_forgets_the_least_recently_used() -> None:
    cache = ScoreCache(2 * 400)
    for name in ("a", "b"):
        cache.put("t", name, RawScore(1.0, False, 1))
    assert cache.get("t", "a") is not None
    cache.put("t", "c", RawScore(1.0, False, 1))
    assert (cache.get("t", "b"), len(cache)) == (None, 2)
