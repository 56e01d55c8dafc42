"""LanceDB's SQL must mean what `pipeline.filters.matches` says."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.stores.lance import LanceStore
from deployments.stores.lance_filters import filter_sql, one_of, quoted
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey
from pipeline.filters import Compare, Exists, Filter, parse_filter
from pipeline.legs import BM25
from tests.deployments.stores.filter_cases import EDGES, FILTERS, KEYS, METADATA, expected

CORPUS = CorpusKey("tenant", "corpus")


def chunk(place: int, metadata: Mapping[str, Any]) -> IndexedChunk:
    text = Chunk(f"{place}#0", str(place), 0, "word", metadata=metadata)
    return IndexedChunk(text, None, "digest")


async def passing(metadata: Sequence[Mapping[str, Any]], filters: Sequence[Filter]) -> list[Any]:
    """Return, for each filter, the places of the metadata that LanceDB lets pass."""
    with tempfile.TemporaryDirectory() as folder:
        store = LanceStore(folder, None)
        await store.upsert(CORPUS, [chunk(place, each) for place, each in enumerate(metadata)])
        found = []
        for filter in filters:
            hits = await store.search(CORPUS, LegQuery(BM25, 1_000, "word", filter=filter))
            found.append(sorted(int(hit.chunk.document_id) for hit in hits))
        return found


@settings(max_examples=25, deadline=None)
@given(st.lists(METADATA, min_size=1, max_size=8), st.lists(FILTERS, min_size=8, max_size=8))
def test_any_filter_passes_the_same_chunks_as_the_reference(
    metadata: list[dict[str, Any]], filters: list[Filter]
) -> None:
    assert asyncio.run(passing(metadata, filters)) == expected(metadata, filters)


@pytest.mark.parametrize("operator", ["eq", "ne", "gt", "gte", "lt", "lte"])
async def test_every_operator_agrees_on_every_pair_of_edge_values(operator: str) -> None:
    values: list[Any] = [*EDGES, *([edge] for edge in EDGES), None, [], {}]
    metadata = [{"k": value} for value in values]
    operands = [edge for edge in EDGES if operator in ("eq", "ne") or not isinstance(edge, bool)]
    filters = [parse_filter({"field": "k", operator: operand}) for operand in operands]

    assert await passing(metadata, filters) == expected(metadata, filters)


@pytest.mark.parametrize("key", KEYS)
async def test_any_key_can_be_named(key: str) -> None:
    metadata: list[dict[str, Any]] = [{key: 5}, {key: {key: "v"}}, {"other": 5}]
    filters: list[Filter] = [
        Compare((key,), "gt", 4),
        Compare((key, key), "lte", "v"),
        Exists((key,)),
    ]

    assert await passing(metadata, filters) == [[0], [1], [0, 1]]


async def test_the_largest_filter_that_parses_also_runs() -> None:
    leaf = {"field": "k", "in": [f"value {place}" for place in range(1_000)]}
    order = {"field": ".".join(["k"] * 128), "gt": 5}
    raw: dict[str, Any] = {"any": [{"any": [leaf] * 4 + [order] * 110}]}
    for _ in range(13):
        raw = {"not": raw}

    assert await passing([{"k": "value 999"}, {"k": "x"}], [parse_filter(raw)]) == [[1]]


def test_what_a_client_writes_stays_inside_its_literal() -> None:
    assert quoted("it's '; --") == "'it''s ''; --'"
    assert one_of("document_id", ["a", "b'"]) == "document_id IN ('a', 'b''')"
    assert one_of("document_id", []) == "false"
    assert filter_sql(Compare(("k'",), "gt", "'")) == (
        "(array_has_any(terms, make_array(4454688648743153942))"
        """ AND json_exists(metadata, '$."k''" ? (@ > "''")'))"""
    )
