"""Fusing the answers of all legs, for all variants of a query, into one ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.documents import Chunk
from pipeline.hits import Hit, LegEntry, fusion_order, stable_key
from pipeline.legs import DENSE, LegHit, LegResult
from pipeline.stamps import strip_reserved

RRF_K = 60.0

# The least score that a leg can ever give, where it is not 0: a cosine's.
LEAST_SCORES = {DENSE: -1.0}

Method = Literal["rrf", "rsf", "dbsf", "convex"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How to fuse. A leg, or a variant by its number, that is not named weighs 1.

    A list of hits weighs its leg's weight times its variant's, both finite and not negative.
    Under a weight of 0 the list's hits are still there, and gain nothing by it.
    """

    method: Method = "rrf"
    k: float = RRF_K
    leg_weights: Mapping[str, float] = field(default_factory=dict)
    variant_weights: Mapping[int, float] = field(default_factory=dict)


RRF = FusionPlan()


def fuse(results: Sequence[LegResult], plan: FusionPlan = RRF) -> tuple[Hit, ...]:
    """Fuse lists of hits into one: a hit's score is the sum of what each list adds to it.

    A list adds its weight times the method's value of the hit; it adds nothing to a hit that it
    does not have, and a failed leg adds nothing to any. A chunk counts once a list, at its best
    rank; ranks are 1-based. Raw scores stay apart, as they came; one that is no finite number
    becomes None, and counts as the lowest of its list. Order: fusion score, then best rank, then
    id, whatever the order of the results.
    """
    answered = sorted((result for result in results if result.error is None), key=list_order)
    hits: dict[tuple[str, ...], Hit] = {}
    entries: dict[tuple[str, ...], list[LegEntry]] = {}
    for result, weight in zip(answered, list_weights(answered, plan), strict=True):
        for hit, entry in enter(result, weight, plan):
            key = stable_key(hit)
            hits.setdefault(key, hit)
            entries.setdefault(key, []).append(entry)
    fused = (with_scores(hit, entries[key]) for key, hit in hits.items())
    return tuple(sorted(fused, key=fusion_order))


def rrf(leg: str, scores: Floats, plan: FusionPlan) -> Floats:
    """Value ranks by reciprocal rank fusion: 1 / (k + rank); scores play no part.

    Source: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """
    values: Floats = 1.0 / (plan.k + np.arange(1, len(scores) + 1, dtype=np.float64))
    return values


def rsf(leg: str, scores: Floats, plan: FusionPlan) -> Floats:
    """Value scores by relative score fusion: (score - lowest) / (highest - lowest) of the list.

    One hit, or equal scores, are worth 1. Source: Weaviate's relativeScoreFusion.
    """
    return between(scores, scores.min(), scores.max(), flat=1.0)


def dbsf(leg: str, scores: Floats, plan: FusionPlan) -> Floats:
    """Value scores by distribution-based score fusion: mean - 3 sigma is 0, mean + 3 sigma is 1.

    Sigma is the list's sample standard deviation. A score beyond a limit is clipped to it, so an
    outlier is never worth more than 1; one hit, or equal scores, are worth 0.5.
    Source: Mazzeschi, "Distribution-Based Score Fusion", 2023, as Qdrant documents it; there
    outliers are not clipped.
    """
    # The limits move with the scores, so scaling these first only keeps squares from overflowing.
    scaled = between(scores, scores.min(), scores.max(), flat=0.5)
    mean = scaled.mean()
    sigma = math.sqrt(np.square(scaled - mean).sum() / max(len(scaled) - 1, 1))
    return between(scaled, mean - 3 * sigma, mean + 3 * sigma, flat=0.5)


def convex(leg: str, scores: Floats, plan: FusionPlan) -> Floats:
    """Value scores by where they lie between the least that the leg can ever give and the best
    of the list; the weights of all lists that answered are scaled to a sum of 1.

    The least is -1 for cosines, and 0 for BM25 and every other leg; a score below it is clipped
    to it. If the best is no more than the least, all are worth 0.
    Source: the convex combination with theoretical minimum of Bruch, Gai and Ingber, "An
    Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
    """
    least = LEAST_SCORES.get(leg, 0.0)
    return between(scores, least, scores.max(), flat=0.0)


# Each takes the name of a leg and the scores (n,) of its list, best first and at least one, and
# returns their values (n,), finite and not negative.
FUSIONS: Mapping[Method, Callable[[str, Floats, FusionPlan], Floats]] = {
    "rrf": rrf,
    "rsf": rsf,
    "dbsf": dbsf,
    "convex": convex,
}


def between(scores: Floats, low: float, high: float, *, flat: float) -> Floats:
    """Place scores (n,) between two limits, as 0 to 1, and what lies beyond on the nearer one;
    all are `flat` if the limits leave no room."""
    room = high / 2 - low / 2  # halves, because the whole may be more than a float can hold
    if not room > 0:
        return np.full_like(scores, flat)
    placed: Floats = (np.clip(scores, low, high) / 2 - low / 2) / room
    return placed


def list_order(result: LegResult) -> tuple[int, bool, str]:
    """Sort key of lists: the query itself first, dense first, whose scores are easiest to read.

    Where several lists rank a hit best, the first gives the retrieval score.
    """
    return result.variant, result.leg != DENSE, result.leg


def list_weights(answered: Sequence[LegResult], plan: FusionPlan) -> list[float]:
    weights = [
        plan.leg_weights.get(result.leg, 1.0) * plan.variant_weights.get(result.variant, 1.0)
        for result in answered
    ]
    if plan.method != "convex":
        return weights
    total = math.fsum(weights)
    return [weight / total if total > 0 else 0.0 for weight in weights]


def enter(result: LegResult, weight: float, plan: FusionPlan) -> list[tuple[Hit, LegEntry]]:
    """Return a list's hits, each once, with what the list says of them."""
    placed = best_once(result.hits)
    if not placed:
        return []
    scores = [score for _, score in placed]
    values = FUSIONS[plan.method](result.leg, filled(scores), plan).tolist()
    return [
        (hit, LegEntry(result.leg, result.variant, rank, score, weight * value))
        for rank, ((hit, score), value) in enumerate(zip(placed, values, strict=True), start=1)
    ]


def best_once(leg_hits: Iterable[LegHit]) -> list[tuple[Hit, float | None]]:
    """Return each chunk at its first, that is best, place, with its score if that is a number."""
    first: dict[tuple[str, ...], tuple[Hit, float | None]] = {}
    for leg_hit in leg_hits:
        hit = hit_of(leg_hit.chunk)
        score = leg_hit.score if math.isfinite(leg_hit.score) else None
        first.setdefault(stable_key(hit), (hit, score))
    return list(first.values())


def filled(scores: Sequence[float | None]) -> Floats:
    """Return scores (n,) with the lowest in place of those that are missing, 0 if all are."""
    lowest = min((score for score in scores if score is not None), default=0.0)
    return np.array([lowest if score is None else score for score in scores], dtype=np.float64)


def hit_of(chunk: Chunk) -> Hit:
    """Make a hit of a chunk; reserved keys never enter the chain from outside."""
    return Hit(
        id=chunk.id,
        document_id=chunk.document_id,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        title=chunk.title,
        source=chunk.source,
        metadata=strip_reserved(chunk.metadata),
    )


def with_scores(hit: Hit, entries: Sequence[LegEntry]) -> Hit:
    """Set what the lists say, the fusion score, and as retrieval score the raw score of the list
    that ranks the hit best."""
    return replace(
        hit,
        legs=tuple(entries),
        # Rounded once: hits with the same contributions are equal, however these are ordered.
        fusion_score=math.fsum(entry.contribution for entry in entries),
        retrieval_score=min(entries, key=lambda entry: entry.rank).score,
    )
