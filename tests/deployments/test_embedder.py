"""The Embedder as a plain object, on the bundled models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from deployments.config import EmbedderArgs
from deployments.embedder import SLICE, Embedder
from pipeline.vectors import Embedded

TEXTS = [f"{'river ' * (n % 5 + 1)}city {n}" for n in range(2 * SLICE + 3)]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(EmbedderArgs(provider="cpu", sparse_model="splade-tiny-msmarco"))


def assert_alike(found: Embedded, expected: Embedded) -> None:
    np.testing.assert_allclose(found.dense, expected.dense, atol=1e-5)
    for (_, one), (_, other) in zip(found.rows, expected.rows, strict=True):
        assert one is not None
        assert other is not None
        assert one.ids.tolist() == other.ids.tolist()
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)


async def test_texts_come_back_in_their_order_with_both_vectors(embedder: Embedder) -> None:
    embedded = await embedder.embed_documents(TEXTS)

    assert embedded.dense.shape == (len(TEXTS), 384)
    assert embedded.encoders == embedder.encoders
    alone = [await embedder.embed_documents([text]) for text in TEXTS]
    sparse = [one.rows[0][1] for one in alone]
    together = np.concatenate([one.dense for one in alone])
    assert_alike(embedded, Embedded(together, sparse, embedder.encoders))  # type: ignore[arg-type]


async def test_queries_come_before_the_passages_that_are_embedded_with_them(
    embedder: Embedder,
) -> None:
    both = await embedder.embed_queries(["a city"], ["a river"])
    query, passage = (
        await embedder.embed_queries(["a city"]),
        await embedder.embed_documents(["a river"]),
    )
    assert len(both.rows) == 2
    np.testing.assert_allclose(both.dense, np.concatenate([query.dense, passage.dense]), atol=1e-5)
    assert [len(sparse.ids) for _, sparse in both.rows if sparse] == [
        len(sparse.ids) for _, sparse in (*query.rows, *passage.rows) if sparse
    ]


async def test_what_is_counted_is_the_dense_vectors_alone(embedder: Embedder) -> None:
    before = embedder.texts_embedded
    model, queries, tokens = await embedder.embed_counted(["a city"], True)
    _, documents, _ = await embedder.embed_counted(["a city", "a river"], False)
    assert (queries.shape, documents.shape, tokens) == ((1, 384), (2, 384), 2)
    assert model == embedder.encoders.dense
    assert embedder.texts_embedded == before + 3


async def test_its_models_are_described(embedder: Embedder) -> None:
    described = await embedder.describe()
    assert described == {"encoders": embedder.encoders, "dimension": 384}
    assert str(embedder.encoders.dense).startswith("bge-small-en-v1.5@")
    assert str(embedder.encoders.sparse).startswith("splade-tiny-msmarco@")
    status = await embedder.status()
    assert (status["model"], status["sparse_model"]) == (
        embedder.encoders.dense,
        embedder.encoders.sparse,
    )


async def test_a_query_waits_for_one_slice_of_all_that_are_being_stored(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    asked = threading.Event()
    documents, queries = embedder._encode_documents, embedder._encode_queries

    def encode_documents(texts: Sequence[str], sparse: Any) -> Embedded:
        asked.wait(10)
        order.append(texts[0])
        return documents(texts, sparse)

    def encode_queries(texts: Sequence[str], sparse: Any) -> Embedded:
        order.append(texts[0])
        return queries(texts, sparse)

    monkeypatch.setattr(embedder, "_encode_documents", encode_documents)
    monkeypatch.setattr(embedder, "_encode_queries", encode_queries)
    storing = [asyncio.ensure_future(embedder.embed_documents([f"text {n}"])) for n in range(6)]
    await asyncio.sleep(0)
    asking = asyncio.ensure_future(embedder.embed_queries(["query"], ["passage"]))
    await asyncio.sleep(0)
    asked.set()
    await asyncio.gather(asking, *storing)
    assert order.index("query") == 1
    assert order.index("passage") < order.index("text 5")
