"""What all wire models share: strictness, and JSON values that can be stored and sent back."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from deployments.options import printable
from pipeline.stamps import RESERVED_KEYS

T = TypeVar("T")
Path = tuple[str | int, ...]

CONTAINERS = (dict, list)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
MAX_NESTING = 64
INT64 = 2**63
# Looking at each takes a microsecond, of a loop that serves everybody.
MAX_VALUES = 20_000
MAX_ITEMS = 10_000
# The type of an error of size alone.
TOO_MANY = "too_many"


class Wire(BaseModel):
    """Strict types, no NaN; an unknown field is refused with the nearest known name."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        json_schema_extra={"additionalProperties": False},
    )

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            for name in values:
                if name not in cls.model_fields:
                    raise unknown_field(str(name), list(cls.model_fields))
        return values


class FirstFault(FailFast):
    """Ends a list at its first bad item, for each makes an error of its own. Unlike its base it may
    stand in a union, which hashes its types."""

    def __hash__(self) -> int:
        return hash(self.fail_fast)


def unknown_field(name: str, known: list[str]) -> PydanticCustomError:
    shown = printable(name)
    near = difflib.get_close_matches(shown, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(known)}"
    return PydanticCustomError(
        "unknown_field", "unknown field; {hint}", {"hint": hint, "path": [shown]}
    )


def valid_text(value: str) -> str:
    """Refuse a lone surrogate: JSON can write one, and nothing after this could store it."""
    if fault := fault_of(value):
        raise refused(fault)
    return value


def few_enough(value: Any) -> Any:
    """Refuse a long list before its items are looked at."""
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        raise too_many("items", MAX_ITEMS)
    return value


def not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return value


def storable(value: Any) -> Any:
    """Refuse JSON that cannot be kept: see check_json."""
    check_json(value)
    return value


def user_metadata(value: Any) -> Any:
    """Refuse reserved keys too: a document must not bring its own scores."""
    if isinstance(value, dict):
        for key in sorted(RESERVED_KEYS & value.keys()):
            raise PydanticCustomError("reserved", "this key is reserved", {"path": [key]})
    return storable(value)


def plain(value: Any) -> Any:
    """Return what was stored as JSON can say it: times as RFC 3339 in UTC, null for a number that
    is none, objects of records."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def check_json(value: Any, most: int = MAX_VALUES, levels: int = MAX_NESTING) -> None:
    """Refuse JSON that cannot be kept: more than `most` values or `levels` of nesting, numbers that
    no engine could hold, text that is none. A value that stands alone is left to its type."""
    waiting: list[tuple[Any, Path]] = [(value, ())] if isinstance(value, CONTAINERS) else []
    seen = 0
    while waiting:
        item, path = waiting.pop()
        seen += len(item)
        if seen > most:
            raise too_many("values", most)
        if len(path) >= levels:
            raise PydanticCustomError("too_deep", f"nesting exceeds {levels} levels")
        for key, inner in entries(item, path):
            if isinstance(inner, CONTAINERS):
                waiting.append((inner, (*path, key)))
            elif fault := fault_of(inner):
                raise refused(fault, (*path, key))


def entries(container: Any, path: Path) -> Iterable[tuple[str | int, Any]]:
    """Return what a container at `path` holds, by key or place; a bad key is an error there."""
    if isinstance(container, list):
        return enumerate(container)
    for key in container:
        if fault := fault_of(key):
            raise refused(fault, path)
    items: Iterable[tuple[str, Any]] = container.items()
    return items


def fault_of(value: Any) -> str | None:
    """Return why a value that is no container cannot be kept, None where it can."""
    if isinstance(value, str):
        return None if value.isascii() or is_unicode(value) else "text must be valid Unicode"
    if isinstance(value, float):
        return None if math.isfinite(value) else "numbers must be finite"
    if isinstance(value, int) and not -INT64 <= value < INT64:
        return "integers must fit 64 bits"
    return None


def is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def refused(message: str, path: Path = ()) -> PydanticCustomError:
    return PydanticCustomError("not_storable", message, {"path": list(path)})


def too_many(what: str, most: int) -> PydanticCustomError:
    return PydanticCustomError(TOO_MANY, f"must hold at most {most} {what}")


Metadata = Annotated[dict[str, Any], BeforeValidator(user_metadata)]
Json = Annotated[dict[str, Any], BeforeValidator(storable)]
Text = Annotated[str, AfterValidator(valid_text)]
FilledText = Annotated[Text, AfterValidator(not_blank), Field(json_schema_extra={"pattern": r"\S"})]
Items = Annotated[list[T], FirstFault(), Field(min_length=1), BeforeValidator(few_enough)]
