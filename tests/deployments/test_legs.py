"""The legs of a request, on handles that answer from a script."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from deployments.budget import leg_share_s
from deployments.legs import LegRequest, Legs
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import NotFound, Overloaded, Unavailable
from pipeline.legs import LegHit, LegResult, Variant
from tests.deployments.handles import ScriptedHandle

CORPUS = CorpusKey("t", "c")
HIT = LegHit(Chunk("a#0", "a", 0, "text"), 1.0)


def legs(retrieval: Any, embedder: Any) -> Legs:
    request = LegRequest(CORPUS, None, time.monotonic() + 10.0)
    return Legs(retrieval, embedder, request, timeout_ms=5000)


QUERY = Variant(0, "original", "q")


async def test_both_legs_are_asked_with_the_vector_made_once() -> None:
    retrieval = ScriptedHandle([LegResult("dense", 0, 3, (HIT,))], [])
    both = legs(retrieval, ScriptedHandle(np.ones((1, 2), np.float32)))
    variants = await both.embed([QUERY])
    await both.retrieve(variants, 3)
    await both.retrieve(variants, 9)
    asked = [[(query.leg, query.k) for _, query in args[1]] for _, args in retrieval.sent]
    assert asked == [[("dense", 3), ("bm25", 3)], [("dense", 9), ("bm25", 9)]]


async def test_a_failing_embedder_is_the_dense_legs_error() -> None:
    bm25 = LegResult("bm25", 0, 3, (HIT,))
    both = legs(ScriptedHandle([bm25]), ScriptedHandle(Unavailable("no embedder")))
    assert await both.retrieve(await both.embed([QUERY]), 3) == [
        LegResult("dense", 0, 3, error="no embedder"),
        bm25,
    ]


async def test_a_failing_retrieval_is_every_legs_error() -> None:
    alone = legs(ScriptedHandle(Unavailable("down")), None)
    assert await alone.retrieve(await alone.embed([QUERY]), 3) == [
        LegResult("bm25", 0, 3, error="down")
    ]


@pytest.mark.parametrize("error", [NotFound("no corpus", "corpus"), Overloaded("full", None, 1)])
async def test_what_is_no_failure_is_raised(error: Exception) -> None:
    alone = legs(ScriptedHandle(error), None)
    with pytest.raises(type(error)):
        await alone.retrieve([QUERY], 3)


@pytest.mark.parametrize(
    ("left", "share"), [(30.0, 5.0), (5.0, 4.5), (2.5, 2.0), (1.0, 0.8), (0.1, 0.08), (0.0, 0.0)]
)
def test_a_leg_leaves_time_for_the_answer(left: float, share: float) -> None:
    assert leg_share_s(left, limit_s=5.0) == pytest.approx(share)
