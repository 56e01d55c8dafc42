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
from deployments.stores.lance_filters import filter_sql, metadata_terms, one_of, quoted
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey
from pipeline.filters import (
    AllOf,
    AnyOf,
    Compare,
    Exists,
    Filter,
    Not,
    OneOf,
    Scalar,
    matches,
    parse_filter,
)
from pipeline.legs import BM25

CORPUS = CorpusKey("tenant", "corpus")

KEYS = [
    "a",
    "b",
    "A",
    "0",
    "we ird",
    "q\"u'o\\",
    "é😀",
    "nul\0",
    "$",
    "*",
    "[0]",
    "@",
    "a\nb",
    "--",
]
EDGES: list[Scalar] = [
    *[
        "",
        "a",
        "B",
        "5",
        "true",
        "null",
        "[5]",
        "é",
        "e\u0301",
        "\uffff",
        "😀",
        "\x7f",
        "\0",
        "a\0b",
    ],
    *["'", "''", '"', "\\", "\\'", "\\u0041", "a\nb\tc", "%", "_", "' OR 1=1 --", '" || true'],
    *[True, False, 0, 1, -1, 5, 0.0, -0.0, 1.0, 5.0, 5.5, -5.5, 0.1, 1e300, 5e-324, -1e-7],
    *[2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63), float(2**63)],
]
SCALARS: st.SearchStrategy[Scalar] = (
    st.sampled_from(EDGES)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.none() | st.just(2**64 + 5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYS, "", "a.b"]), inner, max_size=3)
    ),
    max_leaves=6,
)
METADATA = st.dictionaries(st.sampled_from([*KEYS, "", "a.b"]), VALUES, max_size=4)
PATHS = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3).map(tuple)


def ordered(operand: Scalar) -> bool:
    return not isinstance(operand, bool)


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.builds(Exists, PATHS)
    | st.builds(OneOf, PATHS, st.lists(SCALARS, min_size=1, max_size=3).map(tuple))
    | st.builds(Compare, PATHS, st.just("ne"), SCALARS)
    | st.builds(
        Compare, PATHS, st.sampled_from(["gt", "gte", "lt", "lte"]), SCALARS.filter(ordered)
    ),
    lambda inner: (
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(Not, inner)
    ),
    max_leaves=4,
)


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


def expected(metadata: Sequence[Mapping[str, Any]], filters: Sequence[Filter]) -> list[Any]:
    return [
        [place for place, each in enumerate(metadata) if matches(filter, each)]
        for filter in filters
    ]


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
    raw: dict[str, Any] = {"any": [{"any": [leaf] * 10 + [order] * 110}]}
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


def test_terms_tell_kinds_and_places_apart() -> None:
    metadata: list[dict[str, Any]] = [
        {"k": 1},
        {"k": "1"},
        {"k": True},
        {"k": "True"},
        {"k": [1]},
        {"k": {"1": 1}},
        {"k1": 1},
        {"k": None},
    ]
    terms = [tuple(metadata_terms(each)) for each in metadata]

    assert len(set(terms)) == len(terms)
    assert terms[-1] == ()
    assert metadata_terms({"k": 1}) == metadata_terms({"k": 1.0})
    assert metadata_terms({"k": 0}) == metadata_terms({"k": -0.0})
    assert metadata_terms({"a.b": 1, "": 2}) == []
