"""The hit: one candidate on its way through the chain."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.documents import join_body
from pipeline.stamps import CROSS_ENCODER_SCORE, GRADE, Grade, Stamp, digest, pair_digest


@dataclass(frozen=True, slots=True)
class LegEntry:
    """Where one leg, for one query variant, placed the hit: 1-based rank, raw score (None from a
    source that tells none), and what it added to the fusion score."""

    leg: str
    variant: int
    rank: int
    score: float | None
    contribution: float


@dataclass(frozen=True, slots=True)
class Boost:
    """What the rules made of a hit: the product of their factors, and the value it is sorted by.

    `kind` says on which scale the value lies: boosted_logit, boosted_relevance (a scorer without
    logits) or boosted_fusion (an unscored hit).
    """

    factor: float
    value: float
    kind: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A candidate. Stages return new hits; `metadata` carries stamps, grades and guards.

    `origin` is None for a hit of the corpus that was asked, else the fallback it came from
    (corpus:NAME or http). `refined` is what refinement left of the text.
    """

    id: str
    document_id: str
    chunk_index: int | None
    text: str
    title: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    rank: int | None = None
    legs: tuple[LegEntry, ...] = ()
    retrieval_score: float | None = None
    fusion_score: float | None = None
    origin: str | None = None
    boost: Boost | None = None
    refined: str | None = None

    @property
    def body(self) -> str:
        """The text that the cross-encoder sees: title, newline, text."""
        return join_body(self.title, self.text)

    @property
    def stamp(self) -> Stamp | None:
        value = self.metadata.get(CROSS_ENCODER_SCORE)
        return value if isinstance(value, Stamp) else None

    @property
    def grade(self) -> Grade | None:
        value = self.metadata.get(GRADE)
        return value if isinstance(value, Grade) else None

    @property
    def retrieval_rank(self) -> int | None:
        """The best rank that any leg gave it, None for a hit that no leg brought."""
        return min((entry.rank for entry in self.legs), default=None)

    def stamp_for(self, query: str, model: str | None) -> Stamp | None:
        """Return the stamp if it was made by `model` for this query and this very text."""
        stamp = self.stamp
        if stamp is None or model is None or stamp.model != model:
            return None
        return stamp if stamp.pair == pair_digest(query, self.body) else None

    def marked(self, key: str, value: object) -> Hit:
        """Return the hit with one reserved metadata key set."""
        return replace(self, metadata={**self.metadata, key: value})

    def without(self, key: str) -> Hit:
        """Return the hit without one reserved metadata key."""
        if key not in self.metadata:
            return self
        return replace(self, metadata={k: v for k, v in self.metadata.items() if k != key})


def stable_key(hit: Hit) -> tuple[str, ...]:
    """Identify a hit: where it came from, and its id; else document and chunk index; else
    document and text digest."""
    origin = hit.origin or ""
    if hit.id:
        return (origin, "id", hit.id)
    if hit.chunk_index is not None:
        return (origin, "chunk", hit.document_id, str(hit.chunk_index))
    return (origin, "text", hit.document_id, digest(hit.text))


def effective_score(hit: Hit) -> tuple[float | None, str]:
    """Return the score that a reader should trust most, and its kind: scores of one kind do not
    increase down the list."""
    if hit.boost is not None:
        return hit.boost.value, hit.boost.kind
    if hit.stamp is not None:
        return hit.stamp.relevance, "cross_encoder"
    if hit.fusion_score is not None:
        return hit.fusion_score, "fusion"
    return hit.retrieval_score, "retrieval"


def strength_order(hit: Hit) -> tuple[float, float, int, str]:
    """Sort key of scored hits: logit, then fusion score, then retrieval rank, then id."""
    strength = hit.stamp.strength if hit.stamp is not None else float("-inf")
    return (-strength, *fusion_order(hit))


def fusion_order(hit: Hit) -> tuple[float, int, str]:
    """Sort key of unscored hits: fusion score, then retrieval rank, then id."""
    fusion = hit.fusion_score if hit.fusion_score is not None else float("-inf")
    rank = hit.retrieval_rank if hit.retrieval_rank is not None else sys.maxsize
    return (-fusion, rank, hit.id)
