"""Filters and source rules as Qdrant's conditions.

Equality, presence and kind are asked of `terms`, a payload of numbers with an index. For order
there is `order`: numbers as they are, and strings cut into blocks of six bytes. The block that
follows some bytes of a field's string stands under a key made of the field and those bytes, as a
number that sorts as the block does. So one string is greater than another if, behind some of the
other's blocks, its next block is greater: a range for each block, and no other string's blocks
can be meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from qdrant_client import models

from deployments.stores.terms import exists_term, fields_of, kind_term, value_term
from pipeline.errors import InvalidInput
from pipeline.filters import (
    AllOf,
    AnyOf,
    Compare,
    Exists,
    Filter,
    Not,
    OneOf,
    Operator,
    Path,
    as_float64,
)
from pipeline.sources import Patterns, SourceRules
from pipeline.stamps import digest

Condition = models.Condition

# A block is a number below 257^6, which a float64 holds exactly; 0 stands for "ends here".
BLOCK_BYTES = 6
BASE = 257
# Longer operands would need more of each stored string.
MAX_ORDERED_BYTES = 120


def order_values(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Return what is kept of a chunk's metadata to compare by order."""
    values: dict[str, float] = {}
    for path, value in fields_of(metadata):
        if isinstance(value, str):
            values.update(_blocks(path, value.encode()[: MAX_ORDERED_BYTES + BLOCK_BYTES]))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            values[_number_key(path)] = as_float64(value)
    return values


def filter_condition(filter: Filter) -> Condition:
    """Return the condition that means the same as the filter.

    Raises InvalidInput for a string of more than 120 bytes to be compared by order.
    """
    match filter:
        case AllOf(filters):
            return models.Filter(must=[filter_condition(each) for each in filters])
        case AnyOf(filters):
            return models.Filter(should=[filter_condition(each) for each in filters])
        case Not(inner):
            return models.Filter(must_not=[filter_condition(inner)])
        case Exists(path):
            return _has([exists_term(path)])
        case OneOf(path, values):
            return _has(dict.fromkeys(value_term(path, value) for value in values))
        case Compare(path, "ne", operand):
            is_kind, is_equal = _has([kind_term(path, operand)]), _has([value_term(path, operand)])
            return models.Filter(must=[is_kind], must_not=[is_equal])
        case Compare(path, name, operand):
            if isinstance(operand, str):
                return _string_order(path, name, operand)
            return _range(_number_key(path), name, as_float64(operand))


def sources_condition(rules: SourceRules) -> Condition:
    """Return the condition on `source` that means the same as the rules."""
    allowed = None if rules.allowed is None else _named(rules.allowed)
    return models.Filter(should=allowed, must_not=_named(rules.blocked))


def one_of(key: str, values: Iterable[str]) -> Condition:
    """Return the condition that a payload is one of the values; false for none."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def _has(terms: Iterable[int]) -> Condition:
    return models.FieldCondition(key="terms", match=models.MatchAny(any=list(terms)))


def _named(patterns: Patterns) -> list[Condition]:
    """Return conditions of which one holds for a source that is named, and none without one."""
    prefixes: list[Condition] = [
        models.FieldCondition(key="source", match=models.MatchPrefix(prefix=prefix))
        for prefix in patterns.prefixes
    ]
    return [one_of("source", sorted(patterns.exact)), *prefixes]


def _range(key: str, symbol: Operator, operand: float) -> Condition:
    bounds = models.Range.model_validate({symbol: operand})
    return models.FieldCondition(key=f"order.{key}", range=bounds)


def _string_order(path: Path, symbol: Operator, operand: str) -> Condition:
    """What is less is a string, and neither equal nor greater."""
    encoded = operand.encode()
    if len(encoded) > MAX_ORDERED_BYTES:
        raise InvalidInput(
            f"this index engine compares strings by order up to {MAX_ORDERED_BYTES} bytes",
            "filter",
        )
    is_string = _has([kind_term(path, operand)])
    greater = [_range(key, "gt", block) for key, block in _blocks(path, encoded)]
    not_less = [*greater, _has([value_term(path, operand)])]
    match symbol:
        case "gt":
            return models.Filter(should=greater)
        case "gte":  # of a list, an element may be equal
            return models.Filter(must=[is_string], should=not_less)
        case "lt":
            return models.Filter(must=[is_string], must_not=not_less)
        case _:
            return models.Filter(must=[is_string], must_not=greater)


def _blocks(path: Path, encoded: bytes) -> Iterator[tuple[str, float]]:
    """Yield a string's blocks, each under its key; the last is the end, or holds it."""
    for start in range(0, len(encoded) + 1, BLOCK_BYTES):
        block = encoded[start : start + BLOCK_BYTES]
        padded = [byte + 1 for byte in block] + [0] * (BLOCK_BYTES - len(block))
        number = 0
        for digit in padded:
            number = number * BASE + digit
        yield _key("string", encoded[:start].hex(), *path), float(number)


def _number_key(path: Path) -> str:
    return _key("number", *path)


def _key(*parts: str) -> str:
    """A name that needs no quoting in the engine's paths, whatever the field is called."""
    return "k" + digest(*parts)[:16]
