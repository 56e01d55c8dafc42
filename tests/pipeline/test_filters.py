from __future__ import annotations

import math
from typing import Any

import pytest

from pipeline.errors import InvalidInput
from pipeline.filters import (
    AllOf,
    AnyOf,
    Compare,
    Exists,
    Filter,
    Not,
    OneOf,
    matches,
    parse_filter,
)


def passes(raw: object, metadata: dict[str, Any]) -> bool:
    return matches(parse_filter(raw), metadata)


# Reading


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"field": "year", "eq": 2020}, OneOf(("year",), (2020,))),
        ({"field": "year", "ne": "x"}, Compare(("year",), "ne", "x")),
        ({"field": "year", "in": [1, "a", True]}, OneOf(("year",), (1, "a", True))),
        ({"field": "year", "gt": 1.5}, Compare(("year",), "gt", 1.5)),
        ({"field": "year", "gte": "b"}, Compare(("year",), "gte", "b")),
        ({"field": "year", "lt": -1}, Compare(("year",), "lt", -1)),
        ({"field": "year", "lte": 0}, Compare(("year",), "lte", 0)),
        ({"field": "year", "exists": True}, Exists(("year",))),
        ({"field": "year", "exists": False}, Not(Exists(("year",)))),
        ({"field": "a.b c.d'e", "eq": False}, OneOf(("a", "b c", "d'e"), (False,))),
        (
            {"lt": 9, "field": "year", "gte": 1},
            AllOf((Compare(("year",), "gte", 1), Compare(("year",), "lt", 9))),
        ),
        ({"all": [{"field": "a", "eq": 1}]}, AllOf((OneOf(("a",), (1,)),))),
        (
            {"any": [{"field": "a", "eq": 1}, {"not": {"field": "b", "eq": ""}}]},
            AnyOf((OneOf(("a",), (1,)), Not(OneOf(("b",), ("",))))),
        ),
    ],
)
def test_every_form_is_read(raw: object, expected: Filter) -> None:
    assert parse_filter(raw) == expected


SCALAR = "must be a string, a boolean, an integer of 64 bits or a finite number"
ONE_OF = "must have exactly one of field, all, any, not"
LEAF = {"field": "secret", "eq": "secret"}


@pytest.mark.parametrize(
    ("raw", "param", "message"),
    [
        (None, "filter", "must be an object with one of field, all, any, not"),
        ("secret", "filter", "must be an object with one of field, all, any, not"),
        ({}, "filter", ONE_OF),
        ({"eq": "secret"}, "filter", ONE_OF),
        ({"field": "a", "eq": 1, "any": [LEAF]}, "filter", ONE_OF),
        (
            {"not": LEAF, "gt": 1},
            "filter.gt",
            "stands beside field only, not beside not",
        ),
        ({"all": []}, "filter.all", "must be a non-empty list of filters"),
        ({"any": LEAF}, "filter.any", "must be a non-empty list of filters"),
        (
            {"all": [LEAF, 5]},
            "filter.all[1]",
            "must be an object with one of field, all, any, not",
        ),
        (
            {"field": "secret"},
            "filter",
            "needs at least one of eq, ne, in, gt, gte, lt, lte, exists",
        ),
        ({"field": "", "eq": 1}, "filter.field", "must be a string of 1 to 256 characters"),
        ({"field": "s" * 257, "eq": 1}, "filter.field", "must be a string of 1 to 256 characters"),
        ({"field": ["a"], "eq": 1}, "filter.field", "must be a string of 1 to 256 characters"),
        (
            {"field": "a..b", "eq": 1},
            "filter.field",
            "must be names joined by single dots, none of them empty",
        ),
        (
            {"field": "a.", "eq": 1},
            "filter.field",
            "must be names joined by single dots, none of them empty",
        ),
        (
            {"field": "\ud800", "eq": 1},
            "filter.field",
            "must be valid Unicode, without lone surrogates",
        ),
        ({"field": "a", "eq": None}, "filter.eq", SCALAR),
        ({"field": "a", "eq": [1]}, "filter.eq", SCALAR),
        ({"field": "a", "ne": {}}, "filter.ne", SCALAR),
        ({"field": "a", "eq": 2**63}, "filter.eq", SCALAR),
        ({"field": "a", "gt": -(2**63) - 1}, "filter.gt", SCALAR),
        ({"field": "a", "lt": math.inf}, "filter.lt", SCALAR),
        ({"field": "a", "lte": math.nan}, "filter.lte", SCALAR),
        (
            {"field": "a", "eq": "secret \udfff"},
            "filter.eq",
            "must be valid Unicode, without lone surrogates",
        ),
        (
            {"all": [LEAF, {"field": "a", "gte": True}]},
            "filter.all[1].gte",
            "must be a number or a string: booleans have no order",
        ),
        ({"field": "a", "in": []}, "filter.in", "must be a list of 1 to 1000 values"),
        ({"field": "a", "in": "secret"}, "filter.in", "must be a list of 1 to 1000 values"),
        ({"field": "a", "in": [1] * 1_001}, "filter.in", "must be a list of 1 to 1000 values"),
        ({"not": {"any": [{"field": "a", "in": [1, None]}]}}, "filter.not.any[0].in[1]", SCALAR),
        ({"field": "a", "exists": 1}, "filter.exists", "must be true or false"),
        ({"field": "a", "gtee": 1}, "filter.gtee", "unknown key; did you mean gte?"),
        (
            {"all": [LEAF, {"feild": "a", "eq": 1}]},
            "filter.all[1].feild",
            "unknown key; did you mean field?",
        ),
        (
            {"field": "a", "zzz": 1},
            "filter.zzz",
            "unknown key; known are field, all, any, not, eq, ne, in, gt, gte, lt, lte, exists",
        ),
        (
            {"my secret: 5": 1},
            "filter",
            "unknown key; known are field, all, any, not, eq, ne, in, gt, gte, lt, lte, exists",
        ),
    ],
)
def test_anything_else_is_refused_with_its_place(raw: object, param: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_filter(raw)

    assert (caught.value.param, caught.value.message) == (param, message)


def nested(depth: int) -> object:
    return LEAF if depth == 1 else {"not": nested(depth - 1)}


def test_depth_is_bounded() -> None:
    assert passes(nested(15), {"secret": "secret"})

    with pytest.raises(InvalidInput, match="nests at most 16 deep") as caught:
        parse_filter(nested(17))
    assert caught.value.param == "filter" + ".not" * 16
    assert parse_filter(nested(16))


def test_the_number_of_objects_and_operators_is_bounded() -> None:
    both = {"field": "a", "gt": 1, "lt": 3}  # three nodes
    assert passes({"all": [both] * 85}, {"a": 2})

    with pytest.raises(InvalidInput, match="at most 256 nodes") as caught:
        parse_filter({"all": [both] * 86})
    assert caught.value.param == "filter.all[85]"


def test_an_order_of_booleans_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no order"):
        Compare(("a",), "gt", True)


# Meaning


@pytest.mark.parametrize(
    ("value", "equal", "unequal"),
    [
        (5, [5, 5.0], [4, "5", True, None, [4], {}]),
        (0.0, [0, -0.0], [False, "", None]),
        (1, [1.0], [True, "1"]),
        (True, [True], [False, 1, "true"]),
        ("é", ["é"], ["e\u0301", "É", "e"]),
        ("", [""], [None, [], 0]),
        (2**53, [2**53 + 1, float(2**53)], [2**53 + 2, str(2**53)]),
    ],
)
def test_equality_is_within_a_kind(value: Any, equal: list[Any], unequal: list[Any]) -> None:
    assert [passes({"field": "k", "eq": value}, {"k": each}) for each in equal] == [
        True for _ in equal
    ]
    assert [passes({"field": "k", "eq": value}, {"k": each}) for each in unequal] == [
        False for _ in unequal
    ]


@pytest.mark.parametrize(
    ("comparison", "below", "same", "above"),
    [
        ("gt", False, False, True),
        ("gte", False, True, True),
        ("lt", True, False, False),
        ("lte", True, True, False),
        ("ne", True, False, True),
    ],
)
def test_numbers_and_strings_are_ordered(
    comparison: str, below: bool, same: bool, above: bool
) -> None:
    number = {"field": "k", comparison: 1.5}
    text = {"field": "k", comparison: "\uffff"}

    assert [passes(number, {"k": each}) for each in (1, 1.5, 2)] == [below, same, above]
    # By code point; in UTF-16 the last two would change places.
    assert [passes(text, {"k": each}) for each in ("z", "\uffff", "\U0001f600")] == [
        below,
        same,
        above,
    ]


@pytest.mark.parametrize("comparison", ["ne", "gt", "gte", "lt", "lte"])
@pytest.mark.parametrize(
    "metadata", [{}, {"k": None}, {"k": "1"}, {"k": True}, {"k": [0, 1, 2]}, {"k": {"l": 1}}]
)
def test_a_comparison_on_a_missing_field_or_another_kind_is_false(
    comparison: str, metadata: dict[str, Any]
) -> None:
    assert not passes({"field": "k", comparison: 1}, metadata)
    assert passes({"not": {"field": "k", comparison: 1}}, metadata)


def test_not_is_plain_negation() -> None:
    other: dict[str, Any] = {"not": {"field": "k", "eq": 1}}

    assert passes(other, {})
    assert passes(other, {"k": "1"})
    assert passes(other, {"k": 2})
    assert not passes(other, {"k": 1})
    assert passes({"not": {"not": {"field": "k", "eq": 1}}}, {"k": 1})


def test_eq_and_in_look_one_list_deep() -> None:
    metadata = {"k": ["a", 5, None, ["deep"], {"l": "in an object"}]}

    assert passes({"field": "k", "eq": "a"}, metadata)
    assert passes({"field": "k", "in": ["x", 5.0]}, metadata)
    assert not passes({"field": "k", "eq": "deep"}, metadata)
    assert not passes({"field": "k", "in": ["x", "y"]}, metadata)
    assert not passes({"field": "k.l", "eq": "in an object"}, metadata)
    assert not passes({"field": "k", "eq": "a"}, {"k": []})


def test_dots_name_nested_fields_and_nothing_else() -> None:
    filter = {"field": "a.b", "eq": 1}

    assert passes(filter, {"a": {"b": 1}})
    assert passes(filter, {"a": {"b": [1]}})
    assert not passes(filter, {"a.b": 1})
    assert not passes(filter, {"a": [{"b": 1}]})
    assert not passes(filter, {"a": "b"})
    assert not passes({"field": "a.0", "eq": 1}, {"a": [1]})


def test_null_is_missing_but_empty_is_not() -> None:
    filter = {"field": "k", "exists": True}

    values: list[Any] = [[], {}, "", 0, False]
    for present in values:
        assert passes(filter, {"k": present})
    assert not passes(filter, {"k": None})
    assert not passes(filter, {})
    assert passes({"field": "k", "exists": False}, {"k": None})


def test_operators_of_one_field_must_all_hold() -> None:
    filter = {"field": "k", "gte": 1, "lt": 3, "ne": 2}

    assert [passes(filter, {"k": each}) for each in (0, 1, 2, 2.5, 3)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_integers_beyond_float64_are_infinite() -> None:
    assert passes({"field": "k", "gt": 1e308}, {"k": 10**400})
    assert passes({"field": "k", "lt": -1e308}, {"k": -(10**400)})


def test_the_values_of_all_lists_together_are_bounded() -> None:
    lists = [{"field": f"f{n}", "in": list(range(1000))} for n in range(4)]
    assert parse_filter({"all": lists})
    with pytest.raises(InvalidInput, match="4000 values in all"):
        parse_filter({"all": [*lists, {"field": "g", "in": [1]}]})
