"""What all wire models share: strictness, and JSON values that can be stored and sent back."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from deployments.options import printable
from pipeline.stamps import RESERVED_KEYS

MAX_NESTING = 64
INT64 = 2**63
# Looking at each takes a microsecond, of a loop that serves everybody.
MAX_VALUES = 100_000


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


def unknown_field(name: str, known: list[str]) -> PydanticCustomError:
    shown = printable(name)
    near = difflib.get_close_matches(shown, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(known)}"
    return PydanticCustomError(
        "unknown_field", "unknown field; {hint}", {"hint": hint, "path": [shown]}
    )


def valid_text(value: str) -> str:
    """Refuse a lone surrogate: JSON can write one, and nothing after this could store it."""
    check_unicode(value, ())
    return value


def not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return value


def storable(value: Any) -> Any:
    """Refuse JSON that cannot be kept: too deep, numbers beyond int64, lone surrogates."""
    check_json(value)
    return value


def user_metadata(value: Any) -> Any:
    """Refuse reserved keys too: a document must not bring its own scores."""
    if isinstance(value, Mapping):
        for key in value:
            if key in RESERVED_KEYS:
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


def check_json(value: Any) -> None:
    """Refuse what cannot be kept: too deep, too many values, numbers that no engine could hold."""
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    seen = 0
    while waiting:
        item, path = waiting.pop()
        seen += 1
        if len(path) >= MAX_NESTING:
            raise PydanticCustomError("too_deep", f"nesting exceeds {MAX_NESTING} levels")
        if isinstance(item, Mapping | list) and len(item) > MAX_VALUES - seen:
            raise PydanticCustomError("too_many", f"holds more than {MAX_VALUES} values")
        if isinstance(item, Mapping):
            for key in item:
                check_unicode(key, path)
            waiting += [(inner, (*path, printable(key))) for key, inner in item.items()]
        elif isinstance(item, list):
            waiting += [(inner, (*path, index)) for index, inner in enumerate(item)]
        else:
            check_scalar(item, path)


def check_scalar(value: Any, path: tuple[str | int, ...]) -> None:
    if isinstance(value, str):
        check_unicode(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise refused("numbers must be finite", path)
    elif isinstance(value, int) and not -INT64 <= value < INT64:
        raise refused("integers must fit 64 bits", path)


def check_unicode(text: str, path: tuple[str | int, ...]) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise refused("text must be valid Unicode", path) from None


def refused(message: str, path: tuple[str | int, ...]) -> PydanticCustomError:
    return PydanticCustomError("not_storable", message, {"path": list(path)})


Metadata = Annotated[dict[str, Any], BeforeValidator(user_metadata)]
Json = Annotated[dict[str, Any], BeforeValidator(storable)]
Text = Annotated[str, AfterValidator(valid_text)]
FilledText = Annotated[Text, AfterValidator(not_blank), Field(json_schema_extra={"pattern": r"\S"})]
