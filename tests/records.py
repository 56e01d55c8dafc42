"""Records for tests of what lies around the tracker."""

from __future__ import annotations

from datetime import datetime, timezone

from tracker.ids import new_retrieval_id
from tracker.records import HitRecord, RetrievalRecord


def record(
    *documents: str, retrieval_id: str | None = None, at: datetime | None = None
) -> RetrievalRecord:
    """A retrieval that returned these documents, one chunk each."""
    return RetrievalRecord(
        retrieval_id=retrieval_id or new_retrieval_id(),
        tenant="default",
        corpus="c",
        query="q",
        retrieved_at=at or datetime.now(timezone.utc),
        verdict="correct",
        corrections=0,
        rerank_applied=True,
        degraded=(),
        forward_passes=len(documents),
        reused_scores=0,
        cached_scores=0,
        shared_scores=0,
        model="m",
        timings_ms={"total": 1.0},
        hits=tuple(hit_record(name, rank) for rank, name in enumerate(documents, start=1)),
    )


def hit_record(document_id: str, rank: int) -> HitRecord:
    return HitRecord(
        hit_id=f"{document_id}#0",
        document_id=document_id,
        chunk_index=0,
        rank=rank,
        retrieval_rank=rank,
        retrieval_score=0.5,
        fusion_score=0.1,
        logit=1.0,
        relevance=0.7,
        grade="correct",
        scored=True,
        returned=True,
    )
