"""Small real implementations of the pipeline's Protocols, which count what they are asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pipeline.documents import Chunk
from pipeline.errors import Unavailable
from pipeline.hits import Hit
from pipeline.legs import LegHit, LegResult, Variant
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally


class CountingScorer:
    """Scores texts from a table of logits and counts every pair that it is asked for."""

    def __init__(self, logits: Mapping[str, float], model: str = "fake@1") -> None:
        self.logits = logits
        self.model = model
        self.asked: list[str] = []
        self.down = False

    @property
    def passes(self) -> int:
        return len(self.asked)

    async def __call__(self, query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        if self.down:
            raise Unavailable("the scorer is down")
        self.asked += [pair.text for pair in pairs]
        scores = tuple(self.score(pair.text) for pair in pairs)
        return ScoreAnswer(self.model, scores, Tally(passes=len(pairs)))

    def score(self, text: str) -> PairScore:
        logit = self.logits.get(text)
        if logit is None:
            return PairScore(None, None, reason="poisoned")
        return PairScore(logit, 1 / (1 + math.exp(-logit)))


class FakeLegs:
    """Legs over fixed rankings of ids; a text is its id. Counts retrievals and their depths.

    Every variant finds the same, but those for which `by_variant` has rankings of its own.
    """

    def __init__(self, **rankings: Sequence[str]) -> None:
        self.rankings = rankings
        self.depths: list[int] = []
        self.failing: set[str] = set()
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
        if leg in self.failing:
            return LegResult(leg, variant.number, depth, error="boom")
        hits = tuple(
            LegHit(chunk(identity), 1.0 - rank / 1000) for rank, identity in enumerate(ids[:depth])
        )
        return LegResult(leg, variant.number, depth, hits)


def chunk(identity: str) -> Chunk:
    return Chunk(id=identity, document_id=identity, chunk_index=0, text=identity)


def hit(identity: str, fusion: float = 0.0) -> Hit:
    return Hit(identity, identity, 0, identity, fusion_score=fusion, retrieval_score=fusion)
