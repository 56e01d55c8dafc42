"""How much of a query and of a document the model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["right", "left"]

# Time and memory of a pass grow with the square of the window.
MAX_WINDOW = 8192
# A text is cut to so many before it is tokenised: that bounds the time a long one takes.
MAX_CHARACTERS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Truncation:
    """Where a text is cut and after how many tokens, special tokens not counted.

    `side` is the end that is dropped: `right` keeps a document's beginning. A score depends on
    all of this. None leaves it to the model's own settings, and no limit goes beyond its window.
    """

    side: Side | None = None
    max_document_tokens: int | None = None
    max_query_tokens: int | None = None


AS_CONFIGURED = Truncation()


@dataclass(frozen=True, slots=True)
class Limits:
    """What applies: the end that a document loses, and how many tokens are kept at most.

    A query always keeps its beginning.
    """

    side: Side
    query: int
    document: int


def limits_in(window: int, asked: Truncation, own: Truncation) -> Limits:
    """Return what applies in a window of so many tokens.

    What is `asked` for goes before the model's `own` settings. Nothing goes beyond the window,
    and a query has half of it at most, so that there is room for a document.
    """
    query = asked.max_query_tokens or own.max_query_tokens or window
    document = asked.max_document_tokens or own.max_document_tokens or window
    side = asked.side or own.side or "right"
    return Limits(side, min(query, window // 2), min(document, window))


def kept(length: int, size: int, side: Side) -> slice:
    """Return the part of a sequence of `length` that is left when it is cut to `size`."""
    return slice(size) if side == "right" else slice(max(0, length - size), None)
