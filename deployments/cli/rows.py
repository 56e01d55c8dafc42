"""Rows of tables as documents."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from deployments.cli.pieces import Columns, UnreadableFile

# Public test collections write `_id`.
IDS = ("_id", "id")
# Of a number, and of true and false.
FIRST_CHARACTERS = tuple("-0123456789tf")
# Beyond this not every whole number is one in every language.
LARGEST = 2**53

# Makes a value of a row one of JSON; None is left out.
Convert = Callable[[Any], Any]


def check_columns(names: Collection[str], columns: Columns) -> None:
    """Raise UnreadableFile for a column that a table has not, or has twice."""
    absent = sorted(columns.given - set(names))
    if not absent and columns.text is None and "text" not in names:
        absent = ["text"]
    if absent:
        known = ", ".join(sorted(names))
        raise UnreadableFile(f"it has no column {absent[0]}, but {known}; see --text-column")
    if len(set(names)) < len(names):
        raise UnreadableFile("two of its columns have the same name")


def to_document(
    row: Mapping[str, Any], columns: Columns, place: str, source: str, convert: Convert
) -> dict[str, Any]:
    """Return a row's document; `place` is its id and `source` its source where it has none.

    Raises UnreadableFile if it has no text.
    """
    left = dict(row)
    id_column = columns.id or next((one for one in IDS if one in left), "id")
    identity = shown(left.pop(id_column, None))
    text = shown(left.pop(columns.text or "text", None))
    title = shown(left.pop(columns.title or "title", None))
    origin = shown(left.pop(columns.source or "source", None))
    if text is None:
        raise UnreadableFile("it has no text")
    own = left.pop("metadata", {})
    rest = {**(own if isinstance(own, Mapping) else {"metadata": own}), **left}
    converted = {key: convert(value) for key, value in rest.items()}
    return {
        "id": identity or place,
        "text": text,
        "title": title,
        "source": origin or source,
        "metadata": {key: value for key, value in converted.items() if value is not None},
    }


def shown(value: Any) -> str | None:
    """Return a value as text, None if there is nothing to see of it."""
    text = "" if value is None else str(value)
    return text if text.strip() else None


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it: times as ISO 8601 writes them, None for what has no place."""
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return plain_value(float(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain_value(one) for one in value]
    return None if value is None or isinstance(value, bytes) else str(value)


def cell_value(cell: str) -> Any:
    """Return the number or the truth value that a cell holds, else its text; None for nothing.

    What would look otherwise if it were written again, such as 007 or 1.10, is text.
    """
    if cell[:1] not in FIRST_CHARACTERS:
        return cell or None
    try:
        value = json.loads(cell)
    except ValueError:
        return cell
    same = json.dumps(value) == cell and abs(value) <= LARGEST
    return value if same else cell
