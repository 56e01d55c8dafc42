"""Records for tests of the tracker and of what lies around it."""

from __future__ import annotations

from datetime import datetime, timezone

from tracker.ids import new_retrieval_id
from tracker.records import ComparisonRecord, HitRecord, RetrievalRecord


def record(
    *documents: str,
    retrieval_id: str | None = None,
    at: datetime | None = None,
    tenant: str = "default",
    corpus: str = "c",
    query: str = "q",
) -> RetrievalRecord:
    """A retrieval with these documents as its candidates, one chunk each."""
    return RetrievalRecord(
        retrieval_id=retrieval_id or new_retrieval_id(),
        tenant=tenant,
        corpus=corpus,
        query=query,
        retrieved_at=at or datetime.now(timezone.utc),
        verdict="correct",
        corrections=1,
        rerank_applied=True,
        degraded=("leg:dense",),
        forward_passes=2,
        reused_scores=3,
        cached_scores=4,
        shared_scores=5,
        model="minilm@1f3c",
        timings_ms={"retrieve": 9.8, "total": 828.1},
        hits=tuple(hit_record(name, place) for place, name in enumerate(documents, start=1)),
    )


def hit_record(document_id: str, place: int) -> HitRecord:
    """A returned hit; or, if the document's name starts with "dropped", an unscored candidate."""
    dropped = document_id.startswith("dropped")
    return HitRecord(
        hit_id=f"{document_id}#0",
        document_id=document_id,
        chunk_index=0,
        rank=None if dropped else place,
        retrieval_rank=place + 1,
        retrieval_score=0.61,
        fusion_score=0.0325,
        logit=None if dropped else 3.1,
        relevance=None if dropped else 0.957,
        grade="incorrect" if dropped else "correct",
        scored=not dropped,
        returned=not dropped,
    )


def comparison_of(parent: RetrievalRecord, model: str = "cohere/rerank-v3.5") -> ComparisonRecord:
    """How another model ranked what a retrieval served."""
    return ComparisonRecord(
        retrieval_id=parent.retrieval_id,
        tenant=parent.tenant,
        corpus=parent.corpus,
        retrieved_at=parent.retrieved_at,
        served_model="minilm@1f3c",
        model=model,
        pairs=50,
        kendall=0.75,
        overlap=0.9,
        k=10,
        latency_ms=212.5,
        error=None,
    )
