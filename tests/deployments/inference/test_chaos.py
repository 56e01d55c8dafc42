"""Ten thousand requests of every kind at one batcher."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter

import pytest

from deployments.inference.batching import Batcher
from deployments.inference.score_cache import ScoreCache
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

REQUESTS = 10_000
CLIENTS = 24
KINDS = ("good", "same", "poisoned", "oversized", "cancelled", "late", "refused")
BAD = {
    POISON: "scoring this pair failed",
    NAN: "the model gave a non-finite logit",
    UNREADABLE: "tokenising this pair failed",
    PANIC: "tokenising this pair failed",
}


def is_right(length: int, outcome: PairOutcome) -> bool:
    if length in BAD:
        return outcome.reason == BAD[length] and outcome.score is None
    return outcome.score is not None and outcome.score.logit == length


async def ask(batcher: Batcher, source: random.Random, number: int) -> str:
    """Send one request of a random kind; return what came of it. Wrong answers raise."""
    kind = source.choice(KINDS[:-1])
    good = [length for length in range(1, 60) if length not in BAD]
    lengths = source.sample(good, source.randint(1, 8))
    if kind == "poisoned":
        lengths[0] = source.choice(list(BAD))
    if kind == "oversized":
        lengths = source.sample(good, 30)
    name = "same" if kind == "same" else str(number)
    timeout_s = 0.0005 if kind == "late" else 60.0
    asked = asyncio.create_task(batcher.score("t", "q", pairs(*lengths, of=name), timeout_s))
    if kind == "cancelled":
        await asyncio.sleep(source.random() * 0.004)
        asked.cancel()
    try:
        outcomes = await asked
    except Overloaded:
        await asyncio.sleep(0.001)
        return "refused"
    except asyncio.CancelledError:
        return "cancelled"
    answered = [(length, one) for length, one in zip(lengths, outcomes, strict=True)]
    if kind == "late":
        answered = [(length, one) for length, one in answered if not one.late]
    assert all(is_right(length, one) for length, one in answered), (kind, answered)
    if len(answered) < len(lengths):
        return "late"
    return "good" if kind in ("cancelled", "late") else kind


async def test_every_good_pair_is_answered_right_and_nothing_is_left_in_flight(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)  # ten thousand requests have thousands of poisoned pairs
    source = random.Random(11)
    batcher = Batcher(
        WordModel(), ScoreCache(2**16), threads=2, max_batch_tokens=128, max_queued_tokens=2000
    )
    batcher.start()
    numbers = iter(range(REQUESTS))

    async def client() -> Counter[str]:
        return Counter([await ask(batcher, source, number) for number in numbers])

    ended = sum(await asyncio.gather(*(client() for _ in range(CLIENTS))), Counter[str]())
    assert ended.total() == REQUESTS
    assert all(ended[kind] for kind in KINDS), ended
    await until(lambda: (batcher.pairs_in_flight, batcher.queued_tokens) == (0, 0))
    counts = batcher.counters
    assert counts.pairs_dropped > 0
    (last,) = await batcher.score("t", "q", pairs(5, of="last"), 10)
    assert is_right(5, last)
    await batcher.close()
