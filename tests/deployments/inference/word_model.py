"""A model of pairs whose scores are plain to see."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from deployments.inference.tokens import EncodedPair
from deployments.inference.truncation import AS_CONFIGURED, Limits, Truncation, limits_in
from pipeline.scoring import Pair

# Numbers of words with which something is wrong.
POISON, NAN, UNREADABLE, PANIC = 13, 7, 11, 600


class Panic(BaseException):
    """What libraries written in Rust raise when they panic: no Exception."""


class WordModel:
    """A pair's length and logit are its text's number of words, at most the truncation's.

    Remembers the lengths of every batch. While `go` is not set, batches do not end; `entered` is
    set once one has begun.
    """

    max_tokens = 512

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.slices: list[int] = []
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()

    def encode(self, query: str, texts: Sequence[str], truncation: Truncation) -> list[EncodedPair]:
        self.slices.append(len(texts))
        counts = [len(text.split()) for text in texts]
        if UNREADABLE in counts:
            raise ValueError("unreadable")
        if PANIC in counts:
            raise Panic
        longest = truncation.max_document_tokens or self.max_tokens
        return [encoded(min(count, longest), truncated=count > longest) for count in counts]

    def logits(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        self.entered.set()
        assert self.go.wait(timeout=30)
        lengths = [pair.length for pair in batch]
        self.batches.append(lengths)
        if POISON in lengths:
            raise RuntimeError("poisoned")
        return np.array([np.nan if length == NAN else length for length in lengths], np.float32)

    def limits(self, truncation: Truncation) -> Limits:
        return limits_in(self.max_tokens, truncation, AS_CONFIGURED)

    def slots(self, rows: int, length: int) -> int:
        return rows * length


def encoded(length: int, truncated: bool = False) -> EncodedPair:
    return EncodedPair(np.zeros(length, np.int32), np.zeros(length, np.int32), truncated)


def pairs(*lengths: int, of: str = "") -> list[Pair]:
    """Pairs of so many words; those `of` one name are other pairs than those of another."""
    return [Pair(f"{of} {length}", "w " * length) for length in lengths]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is to come true within half a minute."""
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")
