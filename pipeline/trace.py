"""The trace: what each stage did, and to which hit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.corrective import Correction
from pipeline.hits import Hit
from pipeline.reranking import Reranking


def trace_of(
    retrieved: Sequence[Hit], corrected: Correction, reranked: Reranking, returned: Sequence[Hit]
) -> dict[str, Any]:
    """Return retrieved and reranked hits, the correction's steps and each hit's way through."""
    final = {hit.id: hit.rank for hit in returned}
    survived = {hit.id for hit in corrected.hits}
    places = {hit.id: place for place, hit in enumerate(reranked.hits, start=1)}
    return {
        "retrieved_hits": [brief(hit, place) for place, hit in enumerate(retrieved, start=1)],
        "reranked_hits": [brief(hit, place) for place, hit in enumerate(reranked.hits, start=1)],
        "correction": list(corrected.steps),
        "failures": [str(f) for f in (corrected.failure, reranked.failure) if f is not None],
        "hits": [
            {
                "id": hit.id,
                "legs": [f"{e.leg}/{e.variant}@{e.rank}" for e in hit.legs],
                "grade": hit.grade.value if hit.grade else None,
                "dropped": hit.id not in survived or hit.id not in places,
                "rerank_rank": places.get(hit.id),
                "final_rank": final.get(hit.id),
            }
            for hit in corrected.graded
        ],
    }


def brief(hit: Hit, place: int) -> dict[str, Any]:
    return {
        "id": hit.id,
        "rank": place,
        "fusion": hit.fusion_score,
        "logit": hit.stamp.logit if hit.stamp else None,
        "relevance": hit.stamp.relevance if hit.stamp else None,
    }
