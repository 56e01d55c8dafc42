"""An LRU of scores, bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from deployments.inference.truncation import Limits

Score = TypeVar("Score")

# A dictionary slot and its link, the key with its digest, and the score: measured, rounded up.
ENTRY_BYTES = 512


class Key(NamedTuple):
    """What a score is kept under: nobody meets another tenant's, nor one of a shorter text."""

    tenant: str
    limits: Limits
    digest: str


@dataclass(frozen=True, slots=True)
class RawScore:
    """What one forward pass gave: the logit, and what became of the text on the way to it."""

    logit: float
    truncated: bool
    tokens: int


class ScoreCache(Generic[Score]):
    """Maps a pair's key to its score by the one model served; 0 bytes switch it off."""

    def __init__(self, max_bytes: int) -> None:
        self.capacity = max_bytes // ENTRY_BYTES
        self._scores: OrderedDict[Hashable, Score] = OrderedDict()

    def __len__(self) -> int:
        return len(self._scores)

    def get(self, key: Hashable) -> Score | None:
        score = self._scores.get(key)
        if score is not None:
            self._scores.move_to_end(key)
        return score

    def put(self, key: Hashable, score: Score) -> None:
        if self.capacity == 0:
            return
        self._scores[key] = score
        self._scores.move_to_end(key)
        while len(self._scores) > self.capacity:
            self._scores.popitem(last=False)
