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

from deployments.inference.score_cache import RawScore
from deployments.inference.tokens import EncodedPair
from pipeline.scoring import Pair

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
class PairOutcome:
    """One pair's score and how it was come by; or neither, and the reason.

    `late` says that the reason is time.
    """

    score: RawScore | None
    origin: Literal["pass", "cache", "shared"] | None
    reason: str | None = None
    late: bool = False


@dataclass(eq=False, slots=True)
class Work:
    """One distinct pair on its way to the model."""

    tenant: str
    pair: Pair
    cost: int
    done: asyncio.Future[RawScore]
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
        return [finite(logit) for logit in logits]
    except Exception:  # any runtime's error; each pair gets its own answer
        if len(batch) == 1:
            logger.exception("scoring a pair failed")
            return ["the model failed on this pair"]
        return [result for one in batch for result in run_batch(model, [one])]


def finite(logit: float) -> float | str:
    value = float(logit)
    return value if math.isfinite(value) else "the model gave a non-finite logit"


def outcome_of(source: RawScore | Work, *, own: bool) -> PairOutcome:
    """What came by now of a cached score, or of work of one's `own` or another request's."""
    if isinstance(source, RawScore):
        return PairOutcome(source, "cache")
    if not source.done.done():
        return PairOutcome(None, None, "not scored in time", late=True)
    error = source.done.exception()
    if error is not None:
        return PairOutcome(None, None, str(error))
    return PairOutcome(source.done.result(), "pass" if own else "shared")
