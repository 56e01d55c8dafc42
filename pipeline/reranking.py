"""Reranking: sort by the cross-encoder's score, reading stamps before scoring anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import OnepassError
from pipeline.hits import Hit, fusion_order, stable_key, strength_order
from pipeline.scoring import Score, Tally, proven, stamp_hits
from pipeline.stamps import RERANKED, rerank_guard


@dataclass(frozen=True, slots=True)
class RerankPlan:
    """`top_n` hits in fused order are scored (None = all); the others follow, or are dropped.

    Scored hits of a relevance below `min_score` are dropped (None = none are). The threshold is
    never applied to a hit without a score, nor to the scores of `other_scales`: models that
    stand in for the one it was chosen for.
    """

    top_n: int | None = None
    append_remaining: bool = True
    min_score: float | None = None
    other_scales: frozenset[str] = frozenset()

    def min_score_for(self, model: str | None) -> float | None:
        return None if model in self.other_scales else self.min_score


@dataclass(frozen=True, slots=True)
class Reranking:
    """The ranking. `applied` is true when it ran without error, also with no forward pass; `seen`
    holds every hit that it had, the dropped too."""

    hits: tuple[Hit, ...]
    applied: bool
    tally: Tally
    model: str | None
    failure: OnepassError | None = None
    seen: tuple[Hit, ...] = ()


async def rerank(
    query: str, hits: Sequence[Hit], plan: RerankPlan, score: Score, *, model: str | None = None
) -> Reranking:
    """Sort hits by logit; score only those of the window that have no valid stamp.

    Every hit with a valid stamp is sorted with them, in the window or not. Unscored hits follow
    in their order, or are dropped without `append_remaining`; a failing scorer drops none and
    leaves the guard unset.
    """
    if is_reranked(query, hits, model):
        return Reranking(tuple(hits), True, Tally(), model)
    window = {stable_key(hit) for hit in sorted(hits, key=fusion_order)[: plan.top_n]}
    judged = [hit for hit in hits if stable_key(hit) in window or hit.stamp_for(query, model)]
    stamped = await stamp_hits(query, judged, model, score)
    current = {stable_key(hit): hit for hit in stamped.hits}
    seen = tuple(current.get(stable_key(hit)) or proven(query, hit, stamped.model) for hit in hits)
    scored = [hit for hit in seen if hit.stamp is not None]
    rest = [hit for hit in seen if hit.stamp is None]
    least = plan.min_score_for(stamped.model)
    ranked = sorted((hit for hit in scored if reaches(hit, least)), key=strength_order)
    if plan.append_remaining or stamped.failure is not None:
        ranked += rest
    if stamped.failure is None and stamped.model is not None:
        guard = rerank_guard(query, stamped.model)
        ranked = [hit.marked(RERANKED, guard) for hit in ranked]
    return Reranking(
        tuple(ranked),
        stamped.failure is None,
        stamped.tally,
        stamped.model,
        stamped.failure,
        seen,
    )


def reaches(hit: Hit, min_score: float | None) -> bool:
    """Whether a scored hit's relevance, the very number that is shown, is at least `min_score`."""
    return min_score is None or (hit.stamp is not None and hit.stamp.relevance >= min_score)


def is_reranked(query: str, hits: Sequence[Hit], model: str | None) -> bool:
    """Whether every hit was reranked already for this query by this model."""
    if model is None or not hits:
        return False
    guard = rerank_guard(query, model)
    return all(hit.metadata.get(RERANKED) == guard for hit in hits)
