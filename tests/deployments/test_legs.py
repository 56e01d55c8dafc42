"""The legs of a request, on handles that answer from a script."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from deployments.budget import leg_share_s
from deployments.legs import LegRequest, Legs
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import InvalidInput, NotFound, Overloaded, Unavailable
from pipeline.legs import LegHit, LegResult, Variant
from pipeline.vectors import Embedded, Encoders, SparseVector
from tests.deployments.handles import ScriptedHandle

CORPUS = CorpusKey("t", "c")
HIT = LegHit(Chunk("a#0", "a", 0, "text"), 1.0)


ENCODERS = Encoders("bge@1", "splade@1")
TERMS = SparseVector(np.array([7]), np.array([0.5], np.float32))
QUERY = Variant(0, "original", "q")
HYDE = Variant(1, "hyde", "an answer")


def legs(retrieval: Any, embedder: Any, sparse: bool = False) -> Legs:
    request = LegRequest(CORPUS, None, time.monotonic() + 10.0)
    return Legs(retrieval, embedder, request, timeout_ms=5000, sparse=sparse)


def embedded(count: int = 1, sparse: bool = False) -> Embedded:
    vectors = np.ones((count, 2), np.float32)
    return Embedded(vectors, [TERMS] * count if sparse else None, ENCODERS)


async def test_both_legs_are_asked_with_the_vector_made_once() -> None:
    retrieval = ScriptedHandle([LegResult("dense", 0, 3, (HIT,))], [])
    both = legs(retrieval, ScriptedHandle(embedded()))
    variants = await both.embed([QUERY])
    await both.retrieve(variants, 3)
    await both.retrieve(variants, 9)
    asked = [[(query.leg, query.k) for _, query in args[1]] for _, args in retrieval.sent]
    assert asked == [[("dense", 3), ("bm25", 3)], [("dense", 9), ("bm25", 9)]]


async def test_each_leg_gets_what_it_searches_by_and_the_model_that_made_it() -> None:
    retrieval = ScriptedHandle([])
    three = legs(retrieval, ScriptedHandle(embedded(sparse=True)), sparse=True)
    await three.retrieve(await three.embed([QUERY]), 3)
    ((_, (_, asked, *_)),) = retrieval.sent
    dense, bm25, sparse = (query for _, query in asked)
    assert (dense.leg, dense.vector.tolist(), dense.model) == ("dense", [1, 1], "bge@1")
    assert (bm25.leg, bm25.text, bm25.vector, bm25.model) == ("bm25", "q", None, None)
    assert (sparse.leg, sparse.sparse_vector, sparse.model) == ("sparse", TERMS, "splade@1")
    assert (dense.text, sparse.text) == ("", "")


async def test_a_hypothetical_document_goes_to_the_dense_leg_alone() -> None:
    retrieval = ScriptedHandle([])
    three = legs(retrieval, ScriptedHandle(embedded(2, sparse=True)), sparse=True)
    await three.retrieve(await three.embed([HYDE, QUERY]), 3)
    ((_, (_, asked, *_)),) = retrieval.sent
    legs_asked = [(number, query.leg) for number, query in asked]
    assert legs_asked == [(0, "dense"), (0, "bm25"), (0, "sparse"), (1, "dense")]


async def test_a_failing_embedder_is_the_error_of_both_legs_that_need_it() -> None:
    bm25 = LegResult("bm25", 0, 3, (HIT,))
    three = legs(ScriptedHandle([bm25]), ScriptedHandle(Unavailable("no embedder")), sparse=True)
    assert await three.retrieve(await three.embed([QUERY]), 3) == [
        LegResult("dense", 0, 3, error="no embedder"),
        LegResult("sparse", 0, 3, error="no embedder"),
        bm25,
    ]


def test_without_a_sparse_encoder_there_is_no_sparse_leg() -> None:
    assert legs(None, ScriptedHandle()).names == ("dense", "bm25")
    assert legs(None, None, sparse=True).names == ("bm25",)


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


@pytest.mark.parametrize(
    "error",
    [NotFound("no corpus", "corpus"), Overloaded("full", None, 1), InvalidInput("long", "filter")],
)
async def test_what_is_no_failure_is_raised(error: Exception) -> None:
    alone = legs(ScriptedHandle(error), None)
    with pytest.raises(type(error)):
        await alone.retrieve([QUERY], 3)


@pytest.mark.parametrize(
    ("left", "share"), [(30.0, 5.0), (5.0, 4.5), (2.5, 2.0), (1.0, 0.8), (0.1, 0.08), (0.0, 0.0)]
)
def test_a_leg_leaves_time_for_the_answer(left: float, share: float) -> None:
    assert leg_share_s(left, limit_s=5.0) == pytest.approx(share)
