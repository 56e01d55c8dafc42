"""One pair's way through the batcher: work, batches of it, and what came of it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from deployments.inference.score_cache import CachedScore
from deployments.inference.tokens import EncodedPair
from pipeline.scoring import NOT_IN_TIME, Pair

logger = logging.getLogger(__name__)


class PairModel(Protocol):
    """What the batcher runs, in threads: both calls block, and may run side by side."""

    @property
    def max_tokens(self) -> int: ...

    def encode(self, query: str, texts: Sequence[str]) -> list[EncodedPair]:
        """Tokenise; same length and order as `texts`."""

    def logits(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Score; same length and order as `batch`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One pair's score and how it was come by, or None and the reason."""

    score: CachedScore | None
    origin: Literal["pass", "cache", "shared"]
    reason: str | None = None


@dataclass(eq=False, slots=True)
class Work:
    """One distinct pair on its way to the model."""

    tenant: str
    pair: Pair
    cost: int
    done: asyncio.Future[CachedScore]
    waiters: int = 0
    encoded: EncodedPair | None = None

    @property
    def length(self) -> int:
        return self.encoded.length if self.encoded is not None else 0


def pick_batch(pending: Sequence[Work], max_tokens: int) -> list[Work]:
    """Take the oldest pair and its nearest neighbours in length, within `max_tokens` padded."""
    if not pending:
        return []
    order = sorted(pending, key=lambda work: work.length)
    low = high = order.index(pending[0])
    longest = order[low].length
    while True:
        shorter = order[low].length - order[low - 1].length if low > 0 else math.inf
        longer = order[high + 1].length - longest if high + 1 < len(order) else math.inf
        if shorter == longer == math.inf:
            break
        grown = longest if shorter <= longer else order[high + 1].length
        if grown * (high - low + 2) > max_tokens:
            break
        low, high = (low - 1, high) if shorter <= longer else (low, high + 1)
        longest = grown
    return list(itertools.islice(order, low, high + 1))


def run_batch(model: PairModel, batch: Sequence[EncodedPair]) -> list[float | str]:
    """Score a batch; if it fails, score its pairs one by one, so that a bad one fails alone."""
    try:
        logits = model.logits(batch)
        if len(logits) != len(batch):
            raise RuntimeError(f"{len(logits)} logits for {len(batch)} pairs")
        return [checked(logit) for logit in logits]
    except Exception:  # any runtime's error; each pair gets its own answer
        if len(batch) == 1:
            logger.exception("scoring a pair failed")
            return ["the model failed on this pair"]
        return [result for one in batch for result in run_batch(model, [one])]


def checked(logit: float) -> float | str:
    value = float(logit)
    return value if math.isfinite(value) else "the model gave a non-finite logit"


def work_outcome(work: Work | None, *, shared: bool) -> Outcome:
    origin: Literal["pass", "shared"] = "shared" if shared else "pass"
    if work is None or not work.done.done():
        return Outcome(None, origin, NOT_IN_TIME)
    error = work.done.exception()
    if error is not None:
        return Outcome(None, origin, str(error))
    return Outcome(work.done.result(), origin)
