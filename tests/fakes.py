"""Small real implementations of the pipeline's Protocols, which count what they are asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pipeline.corrective import Found
from pipeline.documents import Chunk
from pipeline.errors import OnepassError, Unavailable
from pipeline.hits import Hit, LegEntry
from pipeline.legs import DENSE, LegHit, LegResult, Variant
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally


class CountingScorer:
    """Scores texts from a table of logits and counts every pair that it is asked for.

    With `calls_left` it is down after so many calls; `models` answer in turn, the last for ever.
    """

    def __init__(self, logits: Mapping[str, float], model: str = "fake@1", *later: str) -> None:
        self.logits = logits
        self.models = [model, *later]
        self.asked: list[str] = []
        self.down = False
        self.calls_left: int | None = None

    @property
    def model(self) -> str:
        return self.models[0]

    @model.setter
    def model(self, name: str) -> None:
        self.models = [name]

    @property
    def passes(self) -> int:
        return len(self.asked)

    async def __call__(self, query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        if self.down or self.calls_left == 0:
            raise Unavailable("the scorer is down")
        if self.calls_left is not None:
            self.calls_left -= 1
        self.asked += [pair.text for pair in pairs]
        scores = tuple(self.score(pair.text) for pair in pairs)
        model = self.models.pop(0) if len(self.models) > 1 else self.model
        return ScoreAnswer(model, scores, Tally(passes=len(pairs)))

    def score(self, text: str) -> PairScore:
        logit = self.logits.get(text)
        if logit is None:
            return PairScore(None, None, reason="poisoned")
        return PairScore(logit, 1 / (1 + math.exp(-logit)))


class FakeLegs:
    """Legs over fixed rankings of ids; a text is its id, or what `texts` has for it, and the
    metadata holds the id as `name`. Counts retrievals and their depths.

    Every variant finds the same, but those for which `by_variant` has rankings of its own. A leg
    fails if it is in `failing`, or asked for more than its depth in `failing_beyond`.
    """

    def __init__(self, **rankings: Sequence[str]) -> None:
        self.rankings = rankings
        self.texts: Mapping[str, str] = {}
        self.depths: list[int] = []
        self.failing: set[str] = set()
        self.failing_beyond: dict[str, int] = {}
        self.by_variant: dict[str, Mapping[str, Sequence[str]]] = {}
        self.asked: list[str] = []

    async def retrieve(self, variants: Sequence[Variant], depth: int) -> list[LegResult]:
        self.depths.append(depth)
        self.asked += [variant.text for variant in variants]
        return [
            self.answer(leg, variant, ids, depth)
            for variant in variants
            for leg, ids in self.by_variant.get(variant.text, self.rankings).items()
            if leg in variant.legs
        ]

    def answer(self, leg: str, variant: Variant, ids: Sequence[str], depth: int) -> LegResult:
        if leg == DENSE and variant.error is not None:
            return LegResult(leg, variant.number, depth, error=variant.error)
        if leg in self.failing or depth > self.failing_beyond.get(leg, depth):
            return LegResult(leg, variant.number, depth, error="boom")
        hits = tuple(
            LegHit(self.chunk(identity), 1.0 - rank / 1000)
            for rank, identity in enumerate(ids[:depth])
        )
        return LegResult(leg, variant.number, depth, hits)

    def chunk(self, identity: str) -> Chunk:
        text = self.texts.get(identity, identity)
        return replace(chunk(identity), text=text, metadata={"name": identity})


class FakeEmbedder:
    """Embeds texts from a table of vectors, others as (1, 0); notes the texts of each call."""

    def __init__(self, vectors: Mapping[str, Sequence[float]] | None = None) -> None:
        self.vectors = vectors or {}
        self.calls: list[list[str]] = []
        self.down = False

    async def __call__(self, variants: Sequence[Variant]) -> tuple[Variant, ...]:
        self.calls.append([variant.text for variant in variants])
        if self.down:
            return tuple(replace(variant, error="no embedder") for variant in variants)
        return tuple(
            replace(
                variant, vector=np.array(self.vectors.get(variant.text, (1.0, 0.0)), np.float32)
            )
            for variant in variants
        )


class FakeSource:
    """Another source of hits, a text being its id; notes the depths asked for, or raises."""

    def __init__(self, *ids: str, error: OnepassError | None = None) -> None:
        self.ids = ids
        self.error = error
        self.partly: OnepassError | None = None
        self.depths: list[int] = []

    async def __call__(self, query: str, variants: Sequence[Variant], depth: int) -> Found:
        self.depths.append(depth)
        if self.error is not None:
            raise self.error
        return Found(
            [
                replace(
                    hit(identity, 1 / (60 + rank)), legs=(LegEntry("other", 0, rank, None, 0.0),)
                )
                for rank, identity in enumerate(self.ids[:depth], start=1)
            ],
            self.partly,
        )


def chunk(identity: str) -> Chunk:
    return Chunk(id=identity, document_id=identity, chunk_index=0, text=identity)


def hit(identity: str, fusion: float = 0.0) -> Hit:
    return Hit(identity, identity, 0, identity, fusion_score=fusion, retrieval_score=fusion)
