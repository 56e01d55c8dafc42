from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import pytest

from deployments.inference.batching import SLICE, Batcher
from deployments.inference.score_cache import RawScore, ScoreCache
from deployments.inference.truncation import Truncation
from deployments.inference.work import PairOutcome
from pipeline.errors import Overloaded
from tests.deployments.inference.word_model import (
    NAN,
    PANIC,
    POISON,
    UNREADABLE,
    WordModel,
    pairs,
    until,
)

Waiting: TypeAlias = asyncio.Task[list[PairOutcome]]


@pytest.fixture
async def batcher() -> AsyncIterator[Batcher]:
    owner = Batcher(WordModel(), ScoreCache(2**16), max_batch_tokens=64)
    owner.start()
    yield owner
    await owner.close()


def model_of(batcher: Batcher) -> WordModel:
    assert isinstance(batcher.model, WordModel)
    return batcher.model


async def occupied(batcher: Batcher, length: int) -> tuple[WordModel, Waiting]:
    """Have the device run one pair of so many words, until the model may go on."""
    model = model_of(batcher)
    model.go.clear()
    running = asyncio.create_task(batcher.score("t", "q", pairs(length), 30))
    await asyncio.to_thread(model.entered.wait, 30)
    return model, running


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


async def test_a_poisoned_pair_fails_alone(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = await batcher.score("t", "q", pairs(12, POISON, 14), 10)
    assert [o.score.logit if o.score else o.reason for o in outcomes] == [
        12.0,
        "scoring this pair failed",
        14.0,
    ]
    assert "scoring 3 pairs together failed: each goes alone" in caplog.text


async def test_a_non_finite_logit_is_not_a_score_and_is_not_cached(batcher: Batcher) -> None:
    outcomes = await batcher.score("t", "q", pairs(7, 8), 10)
    assert [o.reason for o in outcomes] == ["the model gave a non-finite logit", None]
    (again,) = await batcher.score("t", "q", pairs(7), 10)
    assert (again.score, again.origin) == (None, None)


async def test_batches_hold_neighbours_in_length_under_the_token_budget(batcher: Batcher) -> None:
    await batcher.score("t", "q", pairs(*range(1, 33), *range(40, 60)), 10)
    assert all(len(batch) * max(batch) <= 64 for batch in model_of(batcher).batches)
    totals = batcher.workers.counters
    assert 0 < 1 - totals.tokens / totals.padded_tokens < 0.05


async def test_time_that_is_up_gives_a_reason_and_keeps_what_arrived(batcher: Batcher) -> None:
    await batcher.score("t", "q", pairs(2), 10)
    model_of(batcher).go.clear()
    outcomes = await batcher.score("t", "q", pairs(2, 3), 0.05)
    model_of(batcher).go.set()
    assert [o.reason for o in outcomes] == [None, "not scored in time"]


async def test_work_nobody_waits_for_is_dropped_before_it_runs(batcher: Batcher) -> None:
    model, blocking = await occupied(batcher, 2)
    gone = asyncio.create_task(batcher.score("t", "q", pairs(20), 30))
    await until(lambda: batcher.queued_tokens == 2 + 20)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    model.go.set()
    await blocking
    await batcher.score("t", "q", pairs(5), 10)
    assert model.batches == [[2], [5]]
    assert (batcher.counters.pairs_dropped, batcher.queued_tokens) == (1, 0)


async def test_clients_that_leave_in_flight_hold_up_nobody_and_leave_nothing_behind(
    batcher: Batcher,
) -> None:
    model, blocking = await occupied(batcher, 64)
    asking = [
        asyncio.create_task(
            batcher.score("t", f"q{n}", pairs(n % 10 + 1, n % 5 + 15, of=str(n)), 30)
        )
        for n in range(200)
    ]
    await asyncio.sleep(0.01)
    for task in asking[::2]:
        task.cancel()
    model.go.set()
    await blocking
    answers = await asyncio.gather(*asking, return_exceptions=True)
    for number, answer in enumerate(answers):
        if isinstance(answer, BaseException):
            assert number % 2 == 0
        else:
            assert number % 2 == 1
            logits = [o.score.logit if o.score else None for o in answer]
            short = number % 10 + 1
            assert logits == [None if short == NAN else short, number % 5 + 15]
    (last,) = await batcher.score("t", "last", pairs(3), 10)
    assert last.score is not None
    assert batcher.queued_tokens == 0


async def test_over_the_admission_bound_only_what_would_wait_longer_is_refused() -> None:
    batcher = Batcher(WordModel(), ScoreCache(2**16), max_queued_tokens=100)
    batcher.start()
    await batcher.score("t", "q", pairs(9), 30)
    model_of(batcher).go.clear()
    large = asyncio.create_task(batcher.score("t", "q", pairs(*range(20, 60)), 30))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await batcher.score("t", "q", pairs(*range(60, 100)), 30)
    passing = asyncio.create_task(batcher.score("t", "q", pairs(15), 30))
    joining = asyncio.create_task(batcher.score("t", "q", pairs(*range(20, 60)), 30))
    (cached,) = await batcher.score("t", "q", pairs(9), 30)
    assert cached.origin == "cache"
    model_of(batcher).go.set()
    answers = [*await large, *await passing, *await joining]
    assert all(outcome.score for outcome in answers)
    await batcher.close()


async def test_a_cache_of_no_bytes_is_off() -> None:
    batcher = Batcher(WordModel(), ScoreCache(0))
    batcher.start()
    for _ in range(2):
        (outcome,) = await batcher.score("t", "q", pairs(3), 10)
        assert outcome.origin == "pass"
    await batcher.close()


@pytest.mark.parametrize("bad", [UNREADABLE, PANIC])
async def test_a_text_that_cannot_be_tokenised_fails_alone(batcher: Batcher, bad: int) -> None:
    outcomes = await batcher.score("t", "q", pairs(10, bad, 12), 10)
    assert [o.score.logit if o.score else o.reason for o in outcomes] == [
        10.0,
        "tokenising this pair failed",
        12.0,
    ]
    (after,) = await batcher.score("t", "q", pairs(9), 10)
    assert after.score == RawScore(9.0, False, 9)


async def test_limits_beyond_the_window_are_the_windows_own(batcher: Batcher) -> None:
    for truncation in (Truncation(), Truncation(max_document_tokens=10**9)):
        (outcome,) = await batcher.score("t", "q", pairs(9), 10, truncation)
    assert outcome.origin == "cache"


async def test_a_pair_asked_for_twice_in_a_request_has_one_pass(batcher: Batcher) -> None:
    outcomes = await batcher.score("t", "q", [*pairs(3), *pairs(3)], 10)
    assert [(o.origin, o.score) for o in outcomes] == [
        ("pass", RawScore(3.0, False, 3)),
        ("shared", RawScore(3.0, False, 3)),
    ]


async def test_a_shorter_window_is_another_score(batcher: Batcher) -> None:
    short = Truncation(max_document_tokens=5)
    for truncation, expected in ((Truncation(), 9.0), (short, 5.0), (Truncation(), 9.0)):
        (outcome,) = await batcher.score("t", "q", pairs(9), 10, truncation)
        assert outcome.score is not None
        assert (outcome.score.logit, outcome.score.truncated) == (expected, expected == 5.0)
    assert batcher.counters.pairs_cached == 1


async def test_a_small_request_does_not_wait_for_all_of_a_large_one(batcher: Batcher) -> None:
    model = model_of(batcher)
    large = asyncio.create_task(batcher.score("t", "q", pairs(*range(20, 510)), 30))
    await asyncio.to_thread(model.entered.wait, 30)
    small = await batcher.score("t", "r", pairs(14, 15, 16), 30)
    ran_before = len(model.batches)
    assert all(outcome.score for outcome in [*small, *await large])
    assert ran_before < len(model.batches) / 4


async def test_a_large_request_is_passed_by_no_more_tokens_than_it_has_itself(
    batcher: Batcher,
) -> None:
    model, blocking = await occupied(batcher, 64)
    large = asyncio.create_task(batcher.score("t", "q", pairs(*range(40, 60)), 30))
    own = sum(range(40, 60))
    small = [
        asyncio.create_task(batcher.score("t", "q", pairs(30, of=str(n)), 30)) for n in range(200)
    ]
    await until(lambda: batcher.queued_tokens == 64 + own + 200 * 30)
    model.go.set()
    await large
    last = max(place for place, batch in enumerate(model.batches) if 40 <= max(batch) < 60)
    passed = sum(length for batch in model.batches[:last] for length in batch if length == 30)
    assert 0 < passed <= own + 64
    await asyncio.gather(blocking, *small)


async def test_a_pair_in_line_is_hastened_by_a_smaller_request_that_joins(
    batcher: Batcher,
) -> None:
    model, blocking = await occupied(batcher, 64)
    large = asyncio.create_task(batcher.score("t", "q", pairs(*range(20, 60)), 30))
    await until(lambda: batcher.queued_tokens == 64 + sum(range(20, 60)))
    small = asyncio.create_task(batcher.score("t", "q", pairs(20), 30))
    await asyncio.sleep(0)
    model.go.set()
    assert [outcome.origin for outcome in await small] == ["shared"]
    assert [20] in model.batches[:3]
    await asyncio.gather(blocking, large)


async def test_a_short_line_is_shared_out_among_the_threads() -> None:
    model = WordModel()
    batcher = Batcher(model, ScoreCache(0), threads=2, max_batch_tokens=512)
    batcher.start()
    await batcher.score("t", "q", pairs(10, 12, 14, 16), 30)
    assert sorted(model.batches) == [[12, 10], [16, 14]]
    await batcher.close()


async def test_sixty_four_lone_pairs_fill_a_batch_of_thirty_two() -> None:
    model = WordModel()
    batcher = Batcher(model, ScoreCache(0), max_batch_tokens=32 * 50)
    batcher.start()
    model.go.clear()
    asking = [
        asyncio.create_task(batcher.score("t", "q", pairs(50, of=str(n)), 30)) for n in range(64)
    ]
    await until(lambda: batcher.queued_tokens == 64 * 50)
    model.go.set()
    await asyncio.gather(*asking)
    assert max(len(batch) for batch in model.batches) == 32
    await batcher.close()


async def test_texts_are_tokenised_in_slices(batcher: Batcher) -> None:
    await batcher.score("t", "q", pairs(*range(14, 14 + 3 * SLICE)), 30)
    assert model_of(batcher).slices == [SLICE] * 3


async def test_the_loop_goes_on_while_a_batch_runs_and_a_stuck_one_is_seen(
    batcher: Batcher,
) -> None:
    model = model_of(batcher)
    assert batcher.workers.running_s == 0.0
    model.go.clear()
    stuck = asyncio.create_task(batcher.score("t", "q", pairs(2), 30))
    await asyncio.to_thread(model.entered.wait, 30)
    for _ in range(10):
        await asyncio.sleep(0.01)
    assert batcher.workers.running_s > 0.05
    model.go.set()
    await stuck
    assert batcher.workers.running_s == 0.0


async def test_a_refusal_says_when_to_come_back() -> None:
    model = WordModel()
    batcher = Batcher(model, ScoreCache(0), max_queued_tokens=100)
    batcher.start()
    await batcher.score("t", "q", pairs(100), 30)
    batcher.workers.counters.busy_s = 2.0
    model.go.clear()
    large = asyncio.create_task(batcher.score("t", "q", pairs(250), 30))
    await until(lambda: batcher.queued_tokens == 250)
    with pytest.raises(Overloaded) as refused:
        await batcher.score("t", "q", pairs(400), 30)
    assert refused.value.retry_after_s == 5
    model.go.set()
    await large
    await batcher.close()
