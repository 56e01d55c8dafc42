"""Fusing the legs' answers into one ranking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pipeline.hits import Hit, LegEntry, fusion_order
from pipeline.legs import LegHit, LegResult
from pipeline.stamps import strip_reserved

RRF_K = 60.0


def fuse(
    results: Sequence[LegResult], *, k: float = RRF_K, weights: Mapping[str, float] | None = None
) -> tuple[Hit, ...]:
    """Fuse legs by reciprocal rank: a hit's score is the sum over legs of weight / (k + rank).

    Ranks are 1-based and a chunk counts once a leg, at its best rank; a leg that does not have
    it adds nothing. A leg without a weight weighs 1. Order: fusion score, then best leg rank,
    then id, so that ties fall the same way on every run.
    Source: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """
    weights = weights or {}
    hits: dict[str, Hit] = {}
    for result in results:
        weight = weights.get(result.leg, 1.0)
        for rank, leg_hit in enumerate(best_once(result.hits), start=1):
            entry = LegEntry(result.leg, result.variant, rank, leg_hit.score, weight / (k + rank))
            known = hits.get(leg_hit.chunk.id) or hit_of(leg_hit)
            hits[leg_hit.chunk.id] = replace(known, legs=(*known.legs, entry))
    return tuple(sorted((with_scores(hit) for hit in hits.values()), key=fusion_order))


def best_once(leg_hits: Iterable[LegHit]) -> list[LegHit]:
    """Keep each chunk's first, that is best, place."""
    first: dict[str, LegHit] = {}
    for hit in leg_hits:
        first.setdefault(hit.chunk.id, hit)
    return list(first.values())


def hit_of(leg_hit: LegHit) -> Hit:
    """Make a hit of an indexed chunk; reserved keys never enter the chain from an index."""
    chunk = leg_hit.chunk
    return Hit(
        id=chunk.id,
        document_id=chunk.document_id,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        title=chunk.title,
        source=chunk.source,
        metadata=strip_reserved(chunk.metadata),
    )


def with_scores(hit: Hit) -> Hit:
    """Set the fusion score, and as retrieval score the raw score of the leg that ranks it best."""
    best = min(hit.legs, key=lambda entry: entry.rank)
    return replace(
        hit,
        fusion_score=sum(entry.contribution for entry in hit.legs),
        retrieval_score=best.score,
    )
