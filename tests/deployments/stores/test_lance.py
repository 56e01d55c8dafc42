"""What is LanceDB's own: indexed and fresh rows together, its limits, its failures."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.stores.lance import LanceStore
from deployments.stores.lance_rows import corpus_of, schema, table_name, table_prefix
from deployments.stores.protocol import CorpusSize, IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey, chunk_id
from pipeline.errors import InvalidInput, NotFound, Unavailable
from pipeline.filters import parse_filter
from pipeline.legs import BM25, DENSE

DOCS = CorpusKey("acme", "docs")


def passage(document: str, text: str = "word", place: int = 0, **metadata: Any) -> IndexedChunk:
    vector = np.array([1, len(text), 0], dtype=np.float32)
    chunk = Chunk(chunk_id(document, place), document, place, text, metadata=metadata)
    return IndexedChunk(chunk, vector, "digest")


async def found(store: LanceStore, text: str, k: int = 100, filter: object = None) -> Sequence[str]:
    parsed = None if filter is None else parse_filter(filter)
    hits = await store.search(DOCS, LegQuery(BM25, k, text=text, filter=parsed))
    return [hit.chunk.id for hit in hits]


async def near(store: LanceStore, vector: Sequence[float]) -> Sequence[str]:
    array = np.array(vector, dtype=np.float32)
    return [hit.chunk.id for hit in await store.search(DOCS, LegQuery(DENSE, 10, vector=array))]


async def bring_index_up_to_date(folder: Path) -> None:
    connection = await lancedb.connect_async(str(folder))
    table = await connection.open_table(table_name(DOCS))
    await table.optimize()


# The text index


async def test_indexed_replaced_and_fresh_rows_are_searched_as_one(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), 3)
    await store.upsert(DOCS, [passage(f"d{n}", "old words", half=n % 2) for n in range(6)])
    await bring_index_up_to_date(tmp_path)
    await store.upsert(DOCS, [passage("d1", "new words", half=1), passage("d9", "new words")])
    await store.delete(DOCS, ["d2"])

    assert await found(store, "old") == ["d0#0", "d3#0", "d4#0", "d5#0"]
    assert await found(store, "new") == ["d1#0", "d9#0"]
    everything = {"d0#0", "d1#0", "d3#0", "d4#0", "d5#0", "d9#0"}
    assert set(await found(store, "words")) == everything
    odd = await found(store, "words", filter={"field": "half", "eq": 1})
    assert set(odd) == {"d1#0", "d3#0", "d5#0"}
    assert await store.size(DOCS) == CorpusSize(documents=6, chunks=6)
    await bring_index_up_to_date(tmp_path)
    assert await found(store, "words") == sorted(everything)


async def test_words_are_stemmed_folded_and_stopped(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), 3)
    await store.upsert(DOCS, [passage("a", "The cafés were running")])

    assert await found(store, "run") == ["a#0"]
    assert await found(store, "CAFE") == ["a#0"]
    assert await found(store, "the were of") == []


async def test_a_corpus_whose_creation_was_cut_short_is_empty_and_then_mended(
    tmp_path: Path,
) -> None:
    store = LanceStore(str(tmp_path), 3)
    connection = await lancedb.connect_async(str(tmp_path))
    await connection.create_table(table_name(DOCS), schema=schema(3))

    assert await found(store, "word") == []
    assert await near(store, [1, 1, 0]) == []
    await store.upsert(DOCS, [passage("a")])
    assert await found(store, "word") == ["a#0"]


async def test_writers_that_create_a_corpus_at_once_lose_nothing(tmp_path: Path) -> None:
    stores = [LanceStore(str(tmp_path), 3) for _ in range(4)]

    await asyncio.gather(
        *(store.upsert(DOCS, [passage(f"d{n}")]) for n, store in enumerate(stores))
    )

    assert await found(stores[0], "word") == ["d0#0", "d1#0", "d2#0", "d3#0"]


# Vectors


async def test_a_store_without_vectors_has_the_text_leg(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), None)
    await store.upsert(DOCS, [passage("a")])

    assert await found(store, "word") == ["a#0"]


async def test_a_corpus_of_another_dimension_keeps_its_text_leg(tmp_path: Path) -> None:
    await LanceStore(str(tmp_path), 3).upsert(DOCS, [passage("a")])
    store = LanceStore(str(tmp_path), 4)
    wider = IndexedChunk(Chunk("b", "b", 0, "word"), np.ones(4, dtype=np.float32), "digest")

    with pytest.raises(Unavailable, match="vectors of dimension 3, the model of 4"):
        await near(store, [1, 0, 0, 0])
    with pytest.raises(Unavailable, match="vectors of dimension 3, the model of 4"):
        await store.upsert(DOCS, [wider])
    assert await found(store, "word") == ["a#0"]


async def test_a_vector_of_another_shape_is_refused(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), 4)

    with pytest.raises(ValueError, match=r"shape is not \(4,\)"):
        await store.upsert(DOCS, [passage("a")])


# Metadata


async def test_metadata_comes_back_equal(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), 3)
    metadata: dict[str, Any] = {
        "z": [1, 2.5, -0.0, 1e300, 5e-324, 2**63, -(2**63), True, None, "é😀\0'\"\\"],
        "": {"a.b": {}, "nested": [[], {"x": [1]}]},
        "a": "the order of keys is not kept",
    }
    await store.upsert(DOCS, [passage("a", **metadata)])

    assert (await store.fetch(DOCS, "a"))[0].metadata == metadata


def nested(depth: int) -> dict[str, Any]:
    return {"k": [nested(depth - 2)] if depth > 2 else 1}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (nested(66), "nests at most 64 deep"),
        ({"k": [float("nan")]}, "finite"),
        ({"k": {"l": 10**400}}, "finite"),
    ],
)
async def test_metadata_that_the_engine_would_damage_is_refused(
    tmp_path: Path, metadata: dict[str, Any], message: str
) -> None:
    store = LanceStore(str(tmp_path), 3)

    with pytest.raises(InvalidInput, match=message) as caught:
        await store.upsert(DOCS, [passage("a", **metadata)])
    assert caught.value.param == "metadata"
    assert await store.corpora("acme") == []


async def test_metadata_nested_as_deep_as_a_request_may_be_is_stored(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), 3)
    await store.upsert(DOCS, [passage("a", **nested(62))])

    assert (await store.fetch(DOCS, "a"))[0].metadata == nested(62)


# Names


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_a_table_name_says_which_corpus_it_is(tenant: str, other: str, name: str) -> None:
    table = table_name(CorpusKey(tenant, name))

    assert set(table) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert table.startswith(table_prefix(tenant))
    assert table.startswith(table_prefix(other)) == (tenant == other)
    assert corpus_of(table) == name


def test_table_names_stay_as_they_are() -> None:
    assert table_name(DOCS) == "acme.docs"
    assert table_name(CorpusKey("a_b", "C d.é")) == "a_5fb._43_20d_2e_c3_a9"


async def test_names_too_long_for_a_folder_are_refused(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), 3)
    await store.upsert(CorpusKey("a" * 120, "b" * 119), [passage("a")])

    with pytest.raises(InvalidInput, match="too long") as caught:
        await store.upsert(CorpusKey("a" * 120, "b" * 120), [passage("a")])
    assert caught.value.param == "corpus"


# Failures


async def test_a_read_only_store_writes_nothing(tmp_path: Path) -> None:
    await LanceStore(str(tmp_path), 3).upsert(DOCS, [passage("a")])
    store = LanceStore(str(tmp_path), 3, read_only=True)

    for call in [store.upsert(DOCS, [passage("b")]), store.delete(DOCS, ["a"]), store.drop(DOCS)]:
        with pytest.raises(Unavailable, match="only reads"):
            await call
    assert await found(store, "word") == ["a#0"]


async def test_a_read_only_store_finds_nothing_where_nothing_was_written(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path / "not yet"), 3, read_only=True)

    assert await store.corpora("acme") == []
    with pytest.raises(NotFound):
        await found(store, "word")


async def test_a_damaged_corpus_is_unavailable_and_the_cause_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await LanceStore(str(tmp_path), 3).upsert(DOCS, [passage("a")])
    shutil.rmtree(tmp_path / "acme.docs.lance" / "data")
    store = LanceStore(str(tmp_path), 3)

    with caplog.at_level(logging.ERROR), pytest.raises(Unavailable) as caught:
        await store.fetch(DOCS, "a")
    assert str(caught.value) == "the index engine failed"
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert [record.message for record in caplog.records] == ["LanceDB failed"]


async def test_an_unreachable_place_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(Unavailable):
        await LanceStore(str(tmp_path / "file"), 3).corpora("acme")
