from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.inference.batching import Batcher
from deployments.inference.canary import Canary
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.errors import ModelError
from deployments.inference.score_cache import ScoreCache
from deployments.inference.sessions import Device
from deployments.inference.work import PairModel
from tests.deployments.inference.word_model import NAN, UNREADABLE, WordModel


async def check(canary: Canary, model: PairModel, timeout_s: float = 10.0) -> None:
    batcher = Batcher(model, ScoreCache(0))
    batcher.start()
    try:
        await asyncio.wait_for(canary.check(batcher), timeout_s)
        assert not any(batcher.totals.values())
    finally:
        if isinstance(model, WordModel):
            model.go.set()
        await batcher.close()


def of_words(count: int, logit: float) -> Canary:
    return Canary("q", "w " * count, logit)


async def test_a_working_model_gives_the_canary_the_logit_it_had(
    make_model: Callable[..., Path],
) -> None:
    encoder = CrossEncoder.load(make_model(settings={}), Device("cpu"))
    await check(Canary.of(encoder), encoder)


async def test_another_logit_or_none_is_an_error() -> None:
    await check(of_words(5, 5.0), WordModel())
    with pytest.raises(ModelError, match=r"logit was 4\.5000 and is 5\.0000 now"):
        await check(of_words(5, 4.5), WordModel())
    with pytest.raises(ModelError, match="not scored any more: the model gave a non-finite"):
        await check(of_words(NAN, 7.0), WordModel())
    with pytest.raises(ModelError, match="not scored any more: tokenising this pair failed"):
        await check(of_words(UNREADABLE, 11.0), WordModel())


async def test_a_stuck_model_does_not_answer_in_time() -> None:
    model = WordModel()
    model.go.clear()
    with pytest.raises(asyncio.TimeoutError):
        await check(of_words(5, 5.0), model, timeout_s=0.1)
