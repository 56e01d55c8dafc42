"""Filters on a chunk's metadata: their meaning, and how they are read from a request's JSON.

`matches` is the reference that every index engine's own filter language must agree with. A
field is missing if it is absent, null, or below something that is not an object. Numbers are
compared as float64, strings by code point; a number is never compared with a string, nor a
boolean with either.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from pipeline.errors import InvalidInput

# Bounds that keep parsing, and any engine's own planner, away from recursion limits.
MAX_DEPTH = 16
MAX_NODES = 256
MAX_VALUES = 1_000
MAX_VALUES_IN_ALL = 4_000
MAX_FIELD_CHARS = 256

Scalar: TypeAlias = str | bool | int | float
Path: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Literal["bool", "number", "string"]
Operator: TypeAlias = Literal["ne", "gt", "gte", "lt", "lte"]

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


@dataclass(frozen=True, slots=True)
class OneOf:
    """`eq` and `in`: the field is one of the values, or a list with one of them as an element.

    Elements of a list within the list do not count.
    """

    path: Path
    values: tuple[Scalar, ...]
    # Made once: the list is long, and every chunk or hit may be asked about.
    wanted: frozenset[tuple[Kind | None, Any]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wanted", frozenset(map(typed, self.values)))


@dataclass(frozen=True, slots=True)
class Compare:
    """`ne`, `gt`, `gte`, `lt`, `lte`: true only for a field of the operand's own kind.

    So `ne` is false on a missing field, on another kind and on a list; what is to hold for
    those too is written as `not` around `eq`.
    """

    path: Path
    operator: Operator
    operand: Scalar

    def __post_init__(self) -> None:
        if self.operator != "ne" and isinstance(self.operand, bool):
            raise ValueError("booleans have no order")


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is there and not null; an empty list or object is there."""

    path: Path


@dataclass(frozen=True, slots=True)
class AllOf:
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Plain negation: true wherever the filter is false, so on missing fields as well."""

    filter: Filter


Filter: TypeAlias = OneOf | Compare | Exists | AllOf | AnyOf | Not


def matches(filter: Filter, metadata: Mapping[str, Any]) -> bool:
    """Tell whether a chunk with this metadata passes the filter."""
    match filter:
        case AllOf(filters):
            return all(matches(each, metadata) for each in filters)
        case AnyOf(filters):
            return any(matches(each, metadata) for each in filters)
        case Not(inner):
            return not matches(inner, metadata)
        case Exists(path):
            return look_up(path, metadata) is not None
        case OneOf(path):
            found = look_up(path, metadata)
            candidates = found if isinstance(found, list) else [found]
            return any(
                typed(candidate) in filter.wanted for candidate in candidates if kind(candidate)
            )
        case Compare(path, name, operand):
            found = look_up(path, metadata)
            if kind(found) != kind(operand):
                return False
            return COMPARISONS[name](typed(found)[1], typed(operand)[1])


def kind(value: object) -> Kind | None:
    """Return what a value may be compared with; None for null, lists and objects."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
    return None


def typed(value: Any) -> tuple[Kind | None, Any]:
    """Return a value with its kind, so that equal pairs mean equal values: numbers as float64."""
    found = kind(value)
    return found, (as_float64(value) if found == "number" else value)


def as_float64(number: int | float) -> float:
    """Return the nearest float64; infinity for an integer out of its range; never -0.0."""
    try:
        return float(number) + 0.0
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def look_up(path: Path, metadata: Mapping[str, Any]) -> Any:
    found: Any = metadata
    for part in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


GROUPS = ("all", "any", "not")
OPERATORS = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "exists")
KEYS = ("field", *GROUPS, *OPERATORS)


@dataclass(slots=True)
class _Budget:
    """How many more nodes a filter may have (an object or an operator is one), and how many more
    values in its lists."""

    left: int = MAX_NODES
    values: int = MAX_VALUES_IN_ALL

    def spend(self, param: str, values: int = 0) -> None:
        self.left -= 1
        self.values -= values
        if self.left < 0:
            raise InvalidInput(f"a filter has at most {MAX_NODES} nodes", param)
        if self.values < 0:
            raise InvalidInput(f"a filter has at most {MAX_VALUES_IN_ALL} values in all", param)


def parse_filter(raw: object) -> Filter:
    """Read a filter from JSON values.

    Raises InvalidInput with the place as `param` (`filter.all[1].gte`) and the allowed forms as
    message; no value of the request is repeated in it.
    """
    return _parse(raw, "filter", 1, _Budget())


def _parse(raw: object, param: str, depth: int, budget: _Budget) -> Filter:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"a filter nests at most {MAX_DEPTH} deep", param)
    if not isinstance(raw, Mapping):
        raise InvalidInput("must be an object with one of field, all, any, not", param)
    budget.spend(param)
    _refuse_unknown_keys(raw, param)
    heads = [head for head in ("field", *GROUPS) if head in raw]
    if len(heads) != 1:
        raise InvalidInput("must have exactly one of field, all, any, not", param)
    head = heads[0]
    if head == "field":
        return _parse_field(raw, param, budget)
    for other in raw:
        if other != head:
            raise InvalidInput(f"stands beside field only, not beside {head}", f"{param}.{other}")
    return _parse_group(head, raw[head], f"{param}.{head}", depth, budget)


def _parse_group(head: str, raw: object, param: str, depth: int, budget: _Budget) -> Filter:
    if head == "not":
        return Not(_parse(raw, param, depth + 1, budget))
    if not isinstance(raw, list) or not raw:
        raise InvalidInput("must be a non-empty list of filters", param)
    filters = tuple(
        _parse(each, f"{param}[{place}]", depth + 1, budget) for place, each in enumerate(raw)
    )
    return AllOf(filters) if head == "all" else AnyOf(filters)


def _parse_field(raw: Mapping[str, object], param: str, budget: _Budget) -> Filter:
    path = _parse_path(raw["field"], f"{param}.field")
    names = [name for name in OPERATORS if name in raw]
    if not names:
        raise InvalidInput(f"needs at least one of {', '.join(OPERATORS)}", param)
    comparisons = []
    for name in names:
        listed = raw[name] if name == "in" else None
        budget.spend(f"{param}.{name}", len(listed) if isinstance(listed, list) else 0)
        comparisons.append(_parse_operator(path, name, raw[name], f"{param}.{name}"))
    return comparisons[0] if len(comparisons) == 1 else AllOf(tuple(comparisons))


def _parse_path(raw: object, param: str) -> Path:
    if not isinstance(raw, str) or not 1 <= len(raw) <= MAX_FIELD_CHARS:
        raise InvalidInput(f"must be a string of 1 to {MAX_FIELD_CHARS} characters", param)
    path = tuple(_parse_text(raw, param).split("."))
    if not all(path):
        raise InvalidInput("must be names joined by single dots, none of them empty", param)
    return path


def _parse_operator(path: Path, name: str, raw: object, param: str) -> Filter:
    match name:
        case "exists":
            if not isinstance(raw, bool):
                raise InvalidInput("must be true or false", param)
            return Exists(path) if raw else Not(Exists(path))
        case "eq":
            return OneOf(path, (_parse_scalar(raw, param),))
        case "in":
            return OneOf(path, _parse_scalars(raw, param))
        case "ne":
            return Compare(path, "ne", _parse_scalar(raw, param))
        case "gt" | "gte" | "lt" | "lte":
            if isinstance(raw, bool):
                raise InvalidInput("must be a number or a string: booleans have no order", param)
            return Compare(path, name, _parse_scalar(raw, param))
    raise AssertionError(name)


def _parse_scalars(raw: object, param: str) -> tuple[Scalar, ...]:
    if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_VALUES:
        raise InvalidInput(f"must be a list of 1 to {MAX_VALUES} values", param)
    return tuple(_parse_scalar(each, f"{param}[{place}]") for place, each in enumerate(raw))


def _parse_scalar(raw: object, param: str) -> Scalar:
    match raw:
        case bool():
            return raw
        case str():
            return _parse_text(raw, param)
        case int() if -(2**63) <= raw < 2**63:
            return raw
        case float() if math.isfinite(raw):
            return raw
    raise InvalidInput(
        "must be a string, a boolean, an integer of 64 bits or a finite number", param
    )


def _parse_text(raw: str, param: str) -> str:
    """Refuse lone surrogates, which no engine can store and so no engine could find."""
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput("must be valid Unicode, without lone surrogates", param) from None
    return raw


def _refuse_unknown_keys(raw: Mapping[Any, object], param: str) -> None:
    for key in raw:
        if key in KEYS:
            continue
        nearest = get_close_matches(str(key)[:32], KEYS, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(KEYS)}"
        # A key is the client's own text: it is named only where it could pass for a name.
        named = isinstance(key, str) and key.isidentifier() and len(key) <= 32
        raise InvalidInput(f"unknown key; {hint}", f"{param}.{key}" if named else param)
