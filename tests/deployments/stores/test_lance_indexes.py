"""LanceDB's indexes: when they are built, what they find, and what maintenance clears away."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest
from lancedb.index import IvfRq
from lancedb.table import AsyncTable
from numpy.typing import NDArray

from deployments.stores import lance_indexes, lance_search
from deployments.stores.lance import LanceStore
from deployments.stores.lance_rows import table_name
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey
from pipeline.filters import parse_filter
from pipeline.legs import BM25, DENSE

DOCS = CorpusKey("acme", "docs")
DIMENSION = 32
CENTRES = np.random.default_rng(0).normal(size=(20, DIMENSION)).astype(np.float32)


def vectors(count: int, seed: int = 1) -> NDArray[np.float32]:
    """Vectors around a few centres, as texts of a few topics have them."""
    random = np.random.default_rng(seed)
    near = CENTRES[random.integers(len(CENTRES), size=count)]
    return (near + random.normal(size=near.shape)).astype(np.float32)


def chunks(values: NDArray[np.float32], first: int = 0, group: str = "a") -> list[IndexedChunk]:
    return [
        IndexedChunk(Chunk(f"d{n}", f"d{n}", 0, "word", metadata={"group": group}), vector, "")
        for n, vector in enumerate(values, first)
    ]


async def near(
    store: LanceStore, vector: NDArray[np.float32], k: int = 10, filter: object = None
) -> list[str]:
    parsed = None if filter is None else parse_filter(filter)
    hits = await store.search(DOCS, LegQuery(DENSE, k, vector=vector, filter=parsed))
    return [hit.chunk.id for hit in hits]


async def recall(
    store: LanceStore, queries: NDArray[np.float32], values: NDArray[np.float32]
) -> float:
    """The share of the exact first ten that is found."""
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    shares = []
    for query in queries:
        exact = {f"d{n}" for n in np.argsort(-(unit @ query))[:10]}
        shares.append(len(exact.intersection(await near(store, query))) / 10)
    return float(np.mean(shares))


async def table_in(folder: Path) -> AsyncTable:
    connection = await lancedb.connect_async(str(folder), read_consistency_interval=timedelta(0))
    return await connection.open_table(table_name(DOCS))


async def indexed_columns(folder: Path) -> set[str]:
    return {index.columns[0] for index in await (await table_in(folder)).list_indices()}


async def filled(folder: Path, values: NDArray[np.float32], ann_min_rows: int = 256) -> LanceStore:
    store = LanceStore(str(folder), DIMENSION, ann_min_rows=ann_min_rows)
    await store.upsert(DOCS, chunks(values))
    await store.optimise(DOCS)
    return store


async def test_vectors_are_indexed_from_so_many_rows(tmp_path: Path) -> None:
    store = await filled(tmp_path, vectors(255))
    assert await indexed_columns(tmp_path) == {"body"}

    await store.upsert(DOCS, chunks(vectors(1), 255))
    await store.optimise(DOCS)
    assert await indexed_columns(tmp_path) == {"body", "vector"}


async def test_chunks_without_a_vector_are_not_counted(tmp_path: Path) -> None:
    await filled(tmp_path, np.zeros((300, DIMENSION), dtype=np.float32))

    assert await indexed_columns(tmp_path) == {"body"}


async def test_vectors_of_a_dimension_that_the_index_cannot_take_are_searched_exactly(
    tmp_path: Path,
) -> None:
    store = LanceStore(str(tmp_path), 3, ann_min_rows=2)
    values = np.eye(3, dtype=np.float32)
    await store.upsert(DOCS, chunks(values))
    await store.optimise(DOCS)

    assert await indexed_columns(tmp_path) == {"body"}
    assert await near(store, values[1], k=1) == ["d1"]


async def test_columns_are_indexed_from_so_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_indexes, "COLUMN_INDEX_ROWS", 50)
    store = await filled(tmp_path, vectors(49))
    assert await indexed_columns(tmp_path) == {"body"}

    await store.upsert(DOCS, chunks(vectors(1), 49))
    await store.optimise(DOCS)
    assert await indexed_columns(tmp_path) == {"body", "id", "document_id", "terms"}


async def test_an_index_finds_what_an_exact_search_finds(tmp_path: Path) -> None:
    values = vectors(2_000)
    store = await filled(tmp_path, values)

    assert "vector" in await indexed_columns(tmp_path)
    assert await recall(store, vectors(40, seed=2), values) >= 0.95


async def test_scores_of_an_index_are_exact_cosines(tmp_path: Path) -> None:
    values = vectors(500)
    store = await filled(tmp_path, values)
    query = vectors(1, seed=2)[0]

    hits = await store.search(DOCS, LegQuery(DENSE, 10, vector=query))

    for hit in hits:
        own = values[int(hit.chunk.id[1:])]
        cosine = own @ query / np.linalg.norm(own) / np.linalg.norm(query)
        assert hit.score == pytest.approx(cosine, abs=1e-5)


async def test_rows_that_no_index_covers_yet_are_in_both_legs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_indexes, "COLUMN_INDEX_ROWS", 1)
    store = await filled(tmp_path, vectors(300))
    fresh = np.full((1, DIMENSION), 50, dtype=np.float32)
    fresh[0, ::2] *= -1
    await store.upsert(DOCS, chunks(fresh, 300, group="fresh"))
    of_fresh = {"field": "group", "eq": "fresh"}

    assert await near(store, fresh[0], k=1) == ["d300"]
    assert await near(store, fresh[0], filter=of_fresh) == ["d300"]
    asked = LegQuery(BM25, 10, text="word", filter=parse_filter(of_fresh))
    assert [hit.chunk.id for hit in await store.search(DOCS, asked)] == ["d300"]
    assert await store.digests(DOCS, ["d300"]) == {"d300": ""}


async def test_a_replaced_or_deleted_row_leaves_the_index(tmp_path: Path) -> None:
    values = vectors(300)
    store = await filled(tmp_path, values)
    await store.upsert(DOCS, chunks(-values[:1]))
    await store.delete(DOCS, ["d1"])

    assert await near(store, values[0], k=300) == await near(store, values[0], k=1_000)
    assert (await near(store, values[0], k=300))[-1] == "d0"
    assert "d1" not in await near(store, values[1], k=300)


async def test_a_filter_reaches_rows_that_lie_far_from_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = IvfRq(distance_type="cosine", num_bits=4, num_partitions=16)
    monkeypatch.setattr(lance_indexes, "VECTOR_INDEX", index)
    monkeypatch.setattr(lance_search, "PROBES", 1)
    values = vectors(600)
    store = LanceStore(str(tmp_path), DIMENSION, ann_min_rows=256)
    await store.upsert(DOCS, chunks(values))
    await store.upsert(DOCS, chunks(-np.abs(values[:5]), 600, group="rare"))
    await store.optimise(DOCS)

    found = await near(store, np.abs(values[0]), filter={"field": "group", "eq": "rare"})

    assert sorted(found) == ["d600", "d601", "d602", "d603", "d604"]


async def test_a_grown_corpus_is_covered_and_found(tmp_path: Path) -> None:
    values = vectors(3_000)
    store = await filled(tmp_path, values[:300])
    for first in range(300, 3_000, 900):
        await store.upsert(DOCS, chunks(values[first : first + 900], first))
        await store.optimise(DOCS)

    (index,) = [
        one for one in await (await table_in(tmp_path)).list_indices() if one.name != "body_idx"
    ]
    assert (index.num_indexed_rows, index.num_unindexed_rows) == (3_000, 0)
    assert await recall(store, vectors(30, seed=2), values) >= 0.95


async def test_many_small_writes_leave_few_segments_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_indexes, "MAX_SEGMENTS", 3)
    store = await filled(tmp_path, vectors(300))
    segments: list[int] = []
    files: list[int] = []
    for number in range(12):
        await store.upsert(DOCS, chunks(vectors(2), 300 + 2 * number))
        await store.optimise(DOCS)
        table = await table_in(tmp_path)
        segments += [one.num_segments or 0 for one in await table.list_indices()]
        stats: Any = await table.stats()
        files.append(stats["fragment_stats"]["num_fragments"])

    assert max(segments) <= 4
    assert max(files) <= 5


async def versions_after_three_writes(folder: Path) -> int:
    store = LanceStore(str(folder), DIMENSION)
    for _ in range(3):
        await store.upsert(DOCS, chunks(vectors(1)))
    await store.optimise(DOCS)
    table: Any = await table_in(folder)
    return len(await table.list_versions())


async def test_old_versions_stay_for_their_readers(tmp_path: Path) -> None:
    assert await versions_after_three_writes(tmp_path) > 4


async def test_versions_past_their_age_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_indexes, "OLD_VERSIONS", timedelta(milliseconds=1))
    assert await versions_after_three_writes(tmp_path) <= 2


async def test_writes_and_maintenance_at_once_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_indexes, "MAX_SEGMENTS", 1)
    values = vectors(300)
    store = await filled(tmp_path, values)

    async def write(worker: int) -> None:
        for number in range(8):
            first = 300 + 100 * worker + number
            await store.upsert(
                DOCS, [*chunks(values[number:][:1], number), *chunks(vectors(1), first)]
            )

    async def tend() -> None:
        for _ in range(12):
            await store.optimise(DOCS)

    await asyncio.gather(write(0), write(1), tend())

    size = await store.size(DOCS)
    assert (size.documents, size.chunks) == (316, 316)
    assert len(await near(store, values[0], k=1_000)) == 316
