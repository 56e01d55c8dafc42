"""What every option class shares: strict types, one-line errors, laying one set over another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

# The kinds of value that several options share.
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Size = Annotated[int, Field(ge=1, le=1000)]
Weight = Annotated[float, Field(ge=0.0, le=1000.0)]
Milliseconds = Annotated[int, Field(ge=1, le=600_000)]
SHOWN_NAME = 64
CORPUS = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class ConfigError(Exception):
    """The configuration is wrong; the message is one line that names the option."""


class Options(BaseModel):
    """Strict types, no unknown option, no NaN, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def option(default: Any, reason: str, **bounds: Any) -> Any:
    return Field(default=default, description=reason, **bounds)


# An option whose object is one value: half of a filter and half of another are no filter.
WHOLE = "filter"
# An option whose keys are names that somebody chose.
NAMED = "corpora"


def merged(
    base: Mapping[str, Any], changes: Mapping[str, Any], *, by_name: bool = False
) -> dict[str, Any]:
    """Return `base` with `changes` laid over it, objects of options merged key by key."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        is_whole = key == WHOLE and not by_name
        if not is_whole and isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merged(old, value, by_name=key == NAMED and not by_name)
        else:
            result[key] = value
    return result


def one_line(error: ValidationError) -> str:
    """Name the first wrong option and say why, without its value."""
    path, message = first_error(error)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"configuration: {path}: {message}{more}"


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return where the first error lies, as a path, and what it is."""
    first = error.errors(include_url=False, include_input=False)[0]
    return path_of(first["loc"]), message_of(first)


def path_of(location: Sequence[Any]) -> str:
    """Write a location as documents[3].metadata; the tags of unions are left out."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith("~"):
            path += f".{printable(part)}" if path else printable(part)
    return path


def printable(name: str) -> str:
    """A name that a client chose, as it may stand in a message: short, no control characters."""
    return "".join(c if c.isprintable() else "?" for c in name[:SHOWN_NAME])


def message_of(error: Mapping[str, Any]) -> str:
    """Return what pydantic says is wrong, in our validators' own words where they raised."""
    message: str = error["msg"]
    return message.removeprefix("Value error, ")
