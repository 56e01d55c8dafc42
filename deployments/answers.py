"""From a search's result to its answer on the wire and its record in the tracker."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pipeline.chain import SearchResult
from pipeline.documents import CorpusKey
from pipeline.hits import Hit, effective_score
from pipeline.stamps import strip_reserved
from tracker.records import HitRecord, RetrievalRecord


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, when, and under which id it is answered and recorded."""

    retrieval_id: str
    corpus: CorpusKey
    query: str
    retrieved_at: datetime


def search_answer(result: SearchResult, asked: Asked, degraded: tuple[str, ...]) -> dict[str, Any]:
    """Every field is always there, null where it does not apply."""
    context = result.context
    return {
        "retrieval_id": asked.retrieval_id,
        "query": asked.query,
        "rewritten_query": None if result.query == asked.query else result.query,
        "corpus": asked.corpus.name,
        "hits": [hit_answer(hit) for hit in result.hits],
        "context": context.text if context else None,
        "citations": [asdict(citation) for citation in context.citations] if context else [],
        "left_out": list(context.left_out) if context else [],
        "verdict": result.verdict,
        "corrections": result.corrections,
        "rerank_applied": result.rerank_applied,
        "degraded": list(degraded),
        "forward_passes": result.tally.passes,
        "reused_scores": result.tally.reused,
        "cached_scores": result.tally.cached,
        "shared_scores": result.tally.shared,
        "model": result.model,
        "timings_ms": dict(result.timings_ms),
        "trace": result.trace,
    }


def hit_answer(hit: Hit) -> dict[str, Any]:
    score, kind = effective_score(hit)
    stamp = hit.stamp
    return {
        "id": hit.id,
        "document_id": hit.document_id,
        "chunk_index": hit.chunk_index,
        "title": hit.title,
        "text": hit.text,
        "source": hit.source,
        "origin": hit.origin,
        "refined": hit.refined,
        "metadata": strip_reserved(hit.metadata),
        "rank": hit.rank,
        "score": score,
        "score_kind": kind,
        "scored": stamp is not None,
        "truncated": stamp.truncated if stamp else False,
        "grade": hit.grade.value if hit.grade else None,
        "scores": {
            "retrieval": hit.retrieval_score,
            "fusion": hit.fusion_score,
            "cross_encoder": {"logit": stamp.logit, "relevance": stamp.relevance}
            if stamp
            else None,
            "boosted": {"factor": hit.boost.factor, "value": hit.boost.value}
            if hit.boost
            else None,
        },
        "legs": [asdict(entry) for entry in hit.legs],
    }


def retrieval_record(result: SearchResult, asked: Asked) -> RetrievalRecord:
    """Every candidate becomes a row, the dropped ones too."""
    return RetrievalRecord(
        retrieval_id=asked.retrieval_id,
        tenant=asked.corpus.tenant,
        corpus=asked.corpus.name,
        query=asked.query,
        retrieved_at=asked.retrieved_at,
        verdict=result.verdict,
        corrections=result.corrections,
        rerank_applied=result.rerank_applied,
        degraded=result.degraded,
        forward_passes=result.tally.passes,
        reused_scores=result.tally.reused,
        cached_scores=result.tally.cached,
        shared_scores=result.tally.shared,
        model=result.model,
        timings_ms=result.timings_ms,
        hits=tuple(hit_record(hit) for hit in result.candidates),
    )


def hit_record(hit: Hit) -> HitRecord:
    stamp, retrieval_rank = hit.stamp, hit.retrieval_rank
    assert retrieval_rank is not None  # every hit of a search came from a leg
    return HitRecord(
        hit_id=hit.id,
        document_id=hit.document_id,
        chunk_index=hit.chunk_index,
        rank=hit.rank,
        retrieval_rank=retrieval_rank,
        retrieval_score=hit.retrieval_score,
        fusion_score=hit.fusion_score,
        logit=stamp.logit if stamp else None,
        relevance=stamp.relevance if stamp else None,
        grade=hit.grade.value if hit.grade else None,
        scored=stamp is not None,
        returned=hit.rank is not None,
        origin=hit.origin,
    )
