"""One pair's way through the batcher: work, and what came of it."""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from deployments.inference.score_cache import Key, RawScore
from deployments.inference.tokens import EncodedPair
from deployments.inference.truncation import Limits, Truncation

logger = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")


class PairModel(Protocol):
    """What the batcher runs, in threads: both calls block, and may run side by side."""

    @property
    def max_tokens(self) -> int: ...

    def limits(self, truncation: Truncation) -> Limits:
        """Return where texts are cut if that is asked for."""

    def encode(self, query: str, texts: Sequence[str], truncation: Truncation) -> list[EncodedPair]:
        """Tokenise; same length and order as `texts`."""

    def logits(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Score; same length and order as `batch`."""

    def slots(self, rows: int, length: int) -> int:
        """Return how many token slots a batch takes, padding included."""


class Failed(str):
    """Why a pair has no score; for people."""


# What work comes to for which nobody waits any more: those who did were out of time.
DROPPED = Failed("nobody waits for it")


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """One pair's score and how it was come by; or neither, and the reason.

    `late` says that the reason is time.
    """

    score: RawScore | None
    origin: Literal["pass", "cache", "shared"] | None
    reason: str | None = None
    late: bool = False


class Stage(enum.Enum):
    """Where a work is that has no result yet."""

    TOKENISING = enum.auto()
    WAITING = enum.auto()
    RUNNING = enum.auto()


@dataclass(eq=False, slots=True)
class Request:
    """Whoever waits for works; `done` is set once none of them is `left`."""

    left: int
    done: asyncio.Future[None]


@dataclass(eq=False, slots=True)
class Work:
    """One distinct pair on its way to the model.

    `cost` is its tokens, estimated until they are counted: `length` is 0 until then. `due` and
    `number` are its request's: when it is due, counted in admitted tokens, and which in order it
    was. `rank` is its place in line, and `passed` counts the pairs that went before it from
    behind it there. `result` ends it.
    """

    key: Key
    text: str
    cost: int
    due: int
    number: int
    waiting: list[Request] = field(default_factory=list)
    stage: Stage = Stage.TOKENISING
    encoded: EncodedPair | None = None
    length: int = 0
    rank: tuple[int, ...] = ()
    passed: int = 0
    result: RawScore | Failed | None = None

    def settle(self, result: RawScore | Failed) -> None:
        """End it, and let those go on who waited for nothing else."""
        self.result = result
        for request in self.waiting:
            request.left -= 1
            if request.left == 0 and not request.done.done():
                request.done.set_result(None)


def run_batch(model: PairModel, batch: Sequence[EncodedPair]) -> list[float | Failed]:
    """Score a batch, in order; a pair on which the model fails, fails alone."""
    scored = one_by_one(lambda some: list(model.logits(some)), batch, "scoring")
    return [one if isinstance(one, Failed) else finite(one) for one in scored]


def encode_texts(
    model: PairModel, query: str, texts: Sequence[str], truncation: Truncation
) -> list[EncodedPair | Failed]:
    """Tokenise texts, in order; one on which the tokenizer fails, fails alone."""
    return one_by_one(lambda some: model.encode(query, some, truncation), texts, "tokenising")


def one_by_one(
    run: Callable[[Sequence[T]], list[U]], items: Sequence[T], what: str
) -> list[U | Failed]:
    """Run all items together; if that fails, each by itself, so that a bad one fails alone."""
    try:
        results = run(items)
        if len(results) != len(items):
            raise RuntimeError(f"{len(results)} results for {len(items)} pairs")
        return list(results)
    except BaseException:  # any library's error, also a panic in Rust, which is no Exception
        if len(items) == 1:
            logger.exception("%s a pair failed", what)
            return [Failed(f"{what} this pair failed")]
        # Else nobody would see a device that runs no batch any more, only single pairs.
        logger.warning("%s %d pairs together failed: each goes alone", what, len(items))
        return [result for item in items for result in one_by_one(run, [item], what)]


def finite(logit: float) -> float | Failed:
    value = float(logit)
    return value if math.isfinite(value) else Failed("the model gave a non-finite logit")


def outcome_of(source: RawScore | Work, *, own: bool) -> PairOutcome:
    """What came by now of a cached score, or of work of one's `own` or another request's."""
    if isinstance(source, RawScore):
        return PairOutcome(source, "cache")
    result = source.result
    if result is None or result is DROPPED:
        return PairOutcome(None, None, "not scored in time", late=True)
    if isinstance(result, Failed):
        return PairOutcome(None, None, str(result))
    return PairOutcome(result, "pass" if own else "shared")
