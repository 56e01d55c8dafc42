from __future__ import annotations

import math

import numpy as np
import pytest

from deployments.stores.memory import MemoryStore
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey
from pipeline.legs import BM25, DENSE

CORPUS = CorpusKey("tenant", "corpus")


def chunk(name: str, text: str, *vector: float) -> IndexedChunk:
    array = np.array(vector, dtype=np.float32) if vector else None
    return IndexedChunk(Chunk(name, name, 0, text), array, "digest")


async def scores(store: MemoryStore, query: LegQuery) -> dict[str, float]:
    return {hit.chunk.id: hit.score for hit in await store.search(CORPUS, query)}


async def test_bm25_is_the_published_formula() -> None:
    store = MemoryStore()
    texts = {"a": "red red fox", "b": "red dog", "c": "a bird"}
    await store.upsert(CORPUS, [chunk(name, text) for name, text in texts.items()])

    found = await scores(store, LegQuery(BM25, 10, text="Red fox"))

    # Three chunks of 3, 2 and 2 words: 7/3 on average. "red" is in two of them, "fox" in one.
    red, fox = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    norm_a, norm_b = 1.2 * (0.25 + 0.75 * 3 / (7 / 3)), 1.2 * (0.25 + 0.75 * 2 / (7 / 3))
    assert found == {
        "a": pytest.approx(red * 2 * 2.2 / (2 + norm_a) + fox * 2.2 / (1 + norm_a)),
        "b": pytest.approx(red * 2.2 / (1 + norm_b)),
    }


async def test_a_word_repeated_in_the_query_counts_as_often() -> None:
    store = MemoryStore()
    await store.upsert(CORPUS, [chunk("a", "red fox")])

    once = await scores(store, LegQuery(BM25, 10, text="red"))
    twice = await scores(store, LegQuery(BM25, 10, text="red RED"))

    assert twice["a"] == pytest.approx(2 * once["a"])


async def test_words_are_neither_stemmed_nor_stopped() -> None:
    store = MemoryStore()
    await store.upsert(CORPUS, [chunk("a", "the runner"), chunk("b", "Running_fast")])

    assert list(await scores(store, LegQuery(BM25, 10, text="the"))) == ["a"]
    assert list(await scores(store, LegQuery(BM25, 10, text="run running"))) == []
    assert list(await scores(store, LegQuery(BM25, 10, text="RUNNING_FAST"))) == ["b"]


async def test_dense_scores_do_not_depend_on_length() -> None:
    store = MemoryStore()
    await store.upsert(CORPUS, [chunk("a", "", 3, 4), chunk("b", "", 0, 9), chunk("c", "")])

    found = await scores(store, LegQuery(DENSE, 10, vector=np.array([0, 2], dtype=np.float32)))

    assert found == {"b": pytest.approx(1.0), "a": pytest.approx(0.8)}
