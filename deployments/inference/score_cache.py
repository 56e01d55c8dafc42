"""An LRU of scores, bounded in bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass

# Two dictionary slots, the key tuple's digest and tenant strings, and the score object, rounded
# up; tenants repeat and are shared between entries.
ENTRY_BYTES = 400


@dataclass(frozen=True, slots=True)
class RawScore:
    """What one forward pass gave: the logit, and what became of the text on the way to it."""

    logit: float
    truncated: bool
    tokens: int


class ScoreCache:
    """Maps (tenant, pair digest) to a score of the one model served; 0 bytes switch it off."""

    def __init__(self, max_bytes: int) -> None:
        self.capacity = max_bytes // ENTRY_BYTES
        self._scores: OrderedDict[tuple[str, str], RawScore] = OrderedDict()

    def __len__(self) -> int:
        return len(self._scores)

    def get(self, tenant: str, pair: str) -> RawScore | None:
        score = self._scores.get((tenant, pair))
        if score is not None:
            self._scores.move_to_end((tenant, pair))
        return score

    def put(self, tenant: str, pair: str, score: RawScore) -> None:
        if self.capacity == 0:
            return
        self._scores[(sys.intern(tenant), pair)] = score
        self._scores.move_to_end((tenant, pair))
        while len(self._scores) > self.capacity:
            self._scores.popitem(last=False)
