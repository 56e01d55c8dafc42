"""What a chunk's metadata says, as 63-bit terms that any engine can index and look up.

There is one for each field, value, element of a list, and kind: all that the filters `OneOf`,
`Exists` and `ne` ask for. Only order (`gt`, `lte`, ...) needs the values themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.filters import Path, Scalar, kind, typed
from pipeline.stamps import digest


def metadata_terms(metadata: Mapping[str, Any]) -> list[int]:
    """Return the terms of a chunk's metadata, sorted, each once."""
    found: set[int] = set()
    for path, value in fields_of(metadata):
        found.add(exists_term(path))
        if isinstance(value, list):
            found.update(value_term(path, element) for element in value if kind(element))
        elif kind(value):
            found.add(kind_term(path, value))
            found.add(value_term(path, value))
    return sorted(found)


def fields_of(metadata: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each field that a filter can name, with its value; nested ones after their object."""
    for key, value in metadata.items():
        # A filter splits its field at dots, so it can never name these.
        if not key or "." in key or value is None:
            continue
        yield (*above, key), value
        if isinstance(value, Mapping):
            yield from fields_of(value, (*above, key))


def exists_term(path: Path) -> int:
    return _term("exists", *path)


def kind_term(path: Path, value: Scalar) -> int:
    return _term("kind", str(kind(value)), *path)


def value_term(path: Path, value: Scalar) -> int:
    value_kind, comparable = typed(value)
    return _term("value", str(value_kind), str(comparable), *path)


def _term(*parts: str) -> int:
    """63 bits make a literal without a sign; two in a million terms are equal with odds of 5e-8."""
    return int(digest(*parts)[:16], 16) >> 1
