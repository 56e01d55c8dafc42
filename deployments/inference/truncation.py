"""How much of a query and of a document the model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["right", "left"]


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
