"""The engines give the same hits with the same scores, where they do not differ by design."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from qdrant_client import AsyncQdrantClient

from deployments.stores.english import AVERAGE_LENGTH
from deployments.stores.lance import LanceStore
from deployments.stores.memory import MemoryStore
from deployments.stores.protocol import IndexedChunk, LegQuery, Store
from deployments.stores.qdrant import QdrantStore
from pipeline.documents import Chunk, CorpusKey
from pipeline.filters import Filter, parse_filter
from pipeline.legs import BM25, DENSE, SPARSE, LegHit
from pipeline.vectors import SparseVector

CORPUS = CorpusKey("acme", "docs")
WIDTH, CHUNKS, DEPTH = 16, 300, 20
# Neither stop words nor such that have another stem.
WORDS = [f"{a}{b}zz{c}" for a in "bdfg" for b in "aou" for c in "ktpm"]
FILTERS = [None, parse_filter({"field": "half", "eq": 1})]


def unit(rng: np.random.Generator) -> NDArray[np.float32]:
    vector = rng.normal(size=WIDTH).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def sparse(rng: np.random.Generator, terms: int) -> SparseVector:
    ids = np.sort(rng.choice(200, terms, replace=False)).astype(np.int64)
    return SparseVector(ids, rng.uniform(0.1, 3, terms).astype(np.float32))


def chunks(lengths: range) -> list[IndexedChunk]:
    rng, draw = np.random.default_rng(5), random.Random(5)
    made = []
    for n in range(CHUNKS):
        # Rare words and common ones, as texts have them.
        text = " ".join(
            WORDS[int(len(WORDS) * draw.random() ** 2)] for _ in range(draw.choice(lengths))
        )
        chunk = Chunk(f"{n}#0", f"{n}", 0, text, metadata={"half": n % 2})
        made.append(IndexedChunk(chunk, unit(rng), "digest", sparse(rng, 30)))
    return made


async def stores(folder: Path, written: list[IndexedChunk]) -> list[Store]:
    """The exact engine first."""
    client = AsyncQdrantClient(":memory:")
    qdrant = QdrantStore(lambda: client, "onepass", WIDTH)
    made: list[Store] = [MemoryStore(), LanceStore(str(folder), WIDTH), qdrant]
    for store in made:
        await store.upsert(CORPUS, written)
        await store.optimise(CORPUS)
    return made


def assert_alike(hits: list[LegHit], exact: list[LegHit]) -> None:
    assert [hit.chunk for hit in hits] == [hit.chunk for hit in exact]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in exact], abs=1e-4)


@pytest.mark.parametrize("filter", FILTERS, ids=["all", "filtered"])
async def test_dense_hits_are_equal(tmp_path: Path, filter: Filter | None) -> None:
    oracle, *others = await stores(tmp_path, chunks(range(5, 9)))
    rng = np.random.default_rng(6)

    for _ in range(10):
        query = LegQuery(DENSE, DEPTH, vector=unit(rng), filter=filter)
        exact = await oracle.search(CORPUS, query)
        assert len(exact) == DEPTH
        for store in others:
            assert_alike(await store.search(CORPUS, query), exact)


@pytest.mark.parametrize("filter", FILTERS, ids=["all", "filtered"])
async def test_sparse_hits_are_equal(tmp_path: Path, filter: Filter | None) -> None:
    made = await stores(tmp_path, chunks(range(5, 9)))
    oracle, other = (store for store in made if SPARSE in store.legs)
    rng = np.random.default_rng(6)

    for _ in range(10):
        query = LegQuery(SPARSE, DEPTH, sparse_vector=sparse(rng, 12), filter=filter)
        exact = await oracle.search(CORPUS, query)
        assert len(exact) == DEPTH
        assert_alike(await other.search(CORPUS, query), exact)


@pytest.mark.parametrize("filter", FILTERS, ids=["all", "filtered"])
async def test_bm25_hits_are_equal_for_texts_of_the_length_taken_for_average(
    tmp_path: Path, filter: Filter | None
) -> None:
    length = int(AVERAGE_LENGTH)
    oracle, *others = await stores(tmp_path, chunks(range(length, length + 1)))
    draw = random.Random(6)

    for _ in range(10):
        text = " ".join(draw.sample(WORDS, 4))
        query = LegQuery(BM25, DEPTH, text=text, filter=filter)
        # Of equal scores, rounding tells which come first.
        exact = await oracle.search(CORPUS, replace(query, k=CHUNKS))
        by_id = {hit.chunk.id: hit.score for hit in exact}
        for store in others:
            hits = await store.search(CORPUS, query)
            scores = pytest.approx([hit.score for hit in hits], abs=1e-3)
            assert scores == [hit.score for hit in exact[:DEPTH]]
            assert scores == [by_id[hit.chunk.id] for hit in hits]


async def test_bm25_hits_overlap_for_texts_of_any_length(tmp_path: Path) -> None:
    oracle, *others = await stores(tmp_path, chunks(range(20, 120)))
    draw = random.Random(6)
    shared = {type(store): 0 for store in others}

    for _ in range(20):
        query = LegQuery(BM25, DEPTH, text=" ".join(draw.sample(WORDS, 4)))
        exact = {hit.chunk.id for hit in await oracle.search(CORPUS, query)}
        for store in others:
            found = {hit.chunk.id for hit in await store.search(CORPUS, query)}
            shared[type(store)] += len(found & exact)

    assert shared[LanceStore] == 20 * DEPTH
    assert shared[QdrantStore] > 0.9 * 20 * DEPTH
