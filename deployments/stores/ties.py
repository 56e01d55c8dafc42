"""The k best rows with ties in an order of ours, from an engine that cuts them in its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

# An engine cuts equal scores at its limit in an order of its own. So a few more are asked for,
# and many more where the cut still falls among equals; past the bound its order stands.
TIE_MARGIN = 16
TIE_FACTOR = 8
TIE_BOUND = 10_000

# A row with its score, and with the chunk's id under `id`.
Scored = tuple[float, Mapping[str, Any]]


async def best(k: int, ask: Callable[[int], Awaitable[list[Scored]]]) -> list[Scored]:
    """Return the k best of what `ask` gives for a limit, ties by id."""
    limit = k + TIE_MARGIN
    while True:
        rows = sorted(await ask(limit), key=lambda row: (-row[0], row[1]["id"]))
        cut_among_equals = len(rows) == limit and rows[k - 1][0] == rows[-1][0]
        if not cut_among_equals or limit >= TIE_BOUND:
            return rows[:k]
        limit = min(limit * TIE_FACTOR, TIE_BOUND)
