"""Qdrant's conditions must mean what `pipeline.filters.matches` and `SourceRules.allows` say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import AsyncQdrantClient
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from deployments.stores.protocol import IndexedChunk, LegQuery
from deployments.stores.qdrant import QdrantStore
from deployments.stores.qdrant_filters import MAX_ORDERED_BYTES, order_values
from deployments.stores.qdrant_points import query_filter
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import InvalidInput
from pipeline.filters import Compare, Exists, Filter, parse_filter
from pipeline.legs import BM25
from pipeline.sources import SourceRules
from tests.deployments.stores.filter_cases import EDGES, FILTERS, KEYS, METADATA, expected

CORPUS = CorpusKey("tenant", "corpus")

TEXTS = st.text(st.sampled_from("ab*%_'\\é\u0301😀\0\n"), max_size=4)
ENTRIES = st.lists(TEXTS | TEXTS.map(lambda text: text + "*"), max_size=20).map(tuple)
RULES = st.builds(SourceRules, allow=ENTRIES | st.none(), block=ENTRIES)


async def passing(chunks: Sequence[Chunk], queries: Sequence[LegQuery]) -> list[list[int]]:
    """Return, for each query, the documents' numbers that Qdrant lets pass."""
    client = AsyncQdrantClient(":memory:")
    store = QdrantStore(lambda: client, "onepass", None)
    await store.upsert(CORPUS, [IndexedChunk(chunk, None, "digest") for chunk in chunks])
    answers = [await store.search(CORPUS, query) for query in queries]
    return [sorted(int(hit.chunk.document_id) for hit in hits) for hits in answers]


async def passing_filters(
    metadata: Sequence[Mapping[str, Any]], filters: Sequence[Filter]
) -> list[list[int]]:
    chunks = [Chunk(f"{n}#0", str(n), 0, "text", metadata=each) for n, each in enumerate(metadata)]
    return await passing(chunks, [LegQuery(BM25, 1_000, "text", filter=each) for each in filters])


@settings(max_examples=25, deadline=None)
@given(st.lists(METADATA, min_size=1, max_size=8), st.lists(FILTERS, min_size=8, max_size=8))
def test_any_filter_passes_the_same_chunks_as_the_reference(
    metadata: list[dict[str, Any]], filters: list[Filter]
) -> None:
    assert asyncio.run(passing_filters(metadata, filters)) == expected(metadata, filters)


@pytest.mark.parametrize("operator", ["eq", "ne", "gt", "gte", "lt", "lte"])
async def test_every_operator_agrees_on_every_pair_of_edge_values(operator: str) -> None:
    values: list[Any] = [*EDGES, *([edge] for edge in EDGES), None, [], {}]
    metadata = [{"k": value} for value in values]
    operands = [edge for edge in EDGES if operator in ("eq", "ne") or not isinstance(edge, bool)]
    filters = [parse_filter({"field": "k", operator: operand}) for operand in operands]

    assert await passing_filters(metadata, filters) == expected(metadata, filters)


@pytest.mark.parametrize("operator", ["gt", "gte", "lt", "lte"])
async def test_strings_that_differ_late_or_in_length_alone_are_told_apart(operator: str) -> None:
    lengths = [0, 1, 5, 6, 7, 11, 12, 13, 119, 120, 121, 126, 127, 300]
    values = ["a" * length for length in lengths]
    values += [value + end for value in values for end in ("b", "A", "\0", "é")]
    metadata = [{"k": value} for value in values]
    operands = [value for value in values if len(value.encode()) <= MAX_ORDERED_BYTES]
    filters: list[Filter] = [Compare(("k",), operator, value) for value in operands]  # type: ignore[arg-type]

    assert await passing_filters(metadata, filters) == expected(metadata, filters)


async def test_a_string_too_long_to_be_compared_by_order_is_refused() -> None:
    filters: list[Filter] = [Compare(("k",), "gt", "é" * 61)]

    with pytest.raises(InvalidInput, match="up to 120 bytes"):
        await passing_filters([{"k": "x"}], filters)


@pytest.mark.parametrize("key", KEYS)
async def test_any_key_can_be_named(key: str) -> None:
    metadata: list[dict[str, Any]] = [{key: 5}, {key: {key: "v"}}, {"other": 5}]
    filters: list[Filter] = [
        Compare((key,), "gt", 4),
        Compare((key, key), "lte", "v"),
        Exists((key,)),
    ]

    assert await passing_filters(metadata, filters) == [[0], [1], [0, 1]]


async def test_the_largest_filter_that_parses_also_runs() -> None:
    leaf = {"field": "k", "in": [f"value {place}" for place in range(1_000)]}
    order = {"field": ".".join(["k"] * 128), "gt": "x" * MAX_ORDERED_BYTES}
    raw: dict[str, Any] = {"any": [{"any": [leaf] * 4 + [order] * 110}]}
    for _ in range(13):
        raw = {"not": raw}
    metadata = [{"k": "value 999"}, {"k": "x"}]

    assert await passing_filters(metadata, [parse_filter(raw)]) == [[1]]


def test_what_is_kept_of_a_long_string_is_bounded() -> None:
    assert len(order_values({"k": "x" * 100_000})) == 22
    assert len(order_values({"k": 5, "l": "abc", "m": [1, "x"], "n": True})) == 2


@settings(max_examples=25, deadline=None)
@given(
    st.lists(TEXTS | st.none(), min_size=1, max_size=20),
    st.lists(st.lists(RULES, max_size=2).map(tuple), min_size=8, max_size=8),
)
def test_any_rules_pass_the_same_chunks_as_the_reference(
    sources: list[str | None], searches: list[tuple[SourceRules, ...]]
) -> None:
    chunks = [Chunk(f"{n}#0", str(n), 0, "text", source=each) for n, each in enumerate(sources)]
    queries = [LegQuery(BM25, 1_000, "text", sources=rules) for rules in searches]

    assert asyncio.run(passing(chunks, queries)) == [
        [n for n, source in enumerate(sources) if all(each.allows(source) for each in rules)]
        for rules in searches
    ]


@settings(max_examples=25, deadline=None)
@given(FILTERS, RULES)
def test_conditions_are_the_same_over_grpc(filter: Filter, rules: SourceRules) -> None:
    query = LegQuery(BM25, 10, text="text", filter=filter, sources=(rules,))
    asked = query_filter(CORPUS, query)

    assert plain(GrpcToRest.convert_filter(RestToGrpc.convert_filter(asked))) == plain(asked)


def plain(value: Any) -> Any:
    """A filter as JSON, without what is not there."""
    raw = value.model_dump(mode="json", exclude_none=True)
    return json.loads(
        json.dumps(raw), object_hook=lambda node: {k: v for k, v in node.items() if v != []}
    )
