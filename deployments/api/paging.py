"""Lists come page by page, as `{"items": […], "next": token}`; null ends them.

A token holds the place of the last item shown, so that nothing comes twice or is left out,
whatever is written meanwhile. Clients send it back as it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from deployments.api.native import parse_time
from pipeline.errors import InvalidInput

MAX_OFFSET = 10_000_000


def one_page(items: Sequence[Mapping[str, Any]], limit: int, *place: str) -> dict[str, Any]:
    """Return a list's answer: the first `limit` of the items, of which one more was asked for.

    `place` names the fields by which the list is sorted, and by which it goes on.
    """
    shown = items[:limit]
    goes_on = len(items) > limit
    token = write_token(*(shown[-1][field] for field in place)) if goes_on else None
    return {"items": shown, "next": token}


def write_token(*place: str | int) -> str:
    """Return a place as text that needs no escaping in a URL."""
    written = json.dumps(place, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(written).decode().rstrip("=")


def read_token(token: str, *kinds: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the place that a token holds, each part read as its kind.

    Raises InvalidInput for what this list never gave.
    """
    try:
        place = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return tuple(kind(part) for kind, part in zip(kinds, place, strict=True))
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput("must be what a page of this list gave", "next") from None


def a_name(part: Any) -> str:
    if not isinstance(part, str):
        raise TypeError("not a name")
    part.encode()  # a lone surrogate is a ValueError
    return part


def a_time(part: Any) -> datetime:
    return parse_time(part)


def an_offset(part: Any) -> int:
    if type(part) is not int or not 0 <= part <= MAX_OFFSET:
        raise TypeError("not an offset")
    return part
