"""Filters and metadata of every kind, drawn at random and picked for their edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from pipeline.filters import AllOf, AnyOf, Compare, Exists, Filter, Not, OneOf, Scalar, matches

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


def expected(metadata: Sequence[Mapping[str, Any]], filters: Sequence[Filter]) -> list[Any]:
    return [
        [place for place, each in enumerate(metadata) if matches(filter, each)]
        for filter in filters
    ]
