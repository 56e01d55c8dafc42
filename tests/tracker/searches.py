"""Searches as a report's test needs them: their hits in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.records import hit_record
from tests.tracker.stores import make_record, minute
from tracker.records import Feedback, HitRecord, Outcome, RetrievalRecord
from tracker.store import TrackerStore


def hit(
    document_id: str,
    rank: int | None = None,
    relevance: float | None = None,
    *,
    chunk: int = 0,
    fusion: float | None = 0.5,
    grade: str | None = None,
    origin: str | None = None,
) -> HitRecord:
    """A candidate; returned if it has a rank, scored if it has a relevance."""
    return replace(
        hit_record(document_id, 1),
        hit_id=f"{document_id}#{chunk}",
        chunk_index=chunk,
        rank=rank,
        returned=rank is not None,
        fusion_score=fusion,
        relevance=relevance,
        logit=None if relevance is None else relevance * 10,
        scored=relevance is not None,
        grade=grade,
        origin=origin,
    )


def searched(
    retrieval_id: str,
    *hits: HitRecord,
    query: str = "q",
    at: float = 0,
    tenant: str = "acme",
    corpus: str = "docs",
    verdict: str = "correct",
    model: str | None = "m@1",
    rerank_applied: bool = True,
    timings_ms: Mapping[str, float] | None = None,
) -> RetrievalRecord:
    """A search, some minutes after noon."""
    return replace(
        make_record(retrieval_id, at, tenant=tenant, corpus=corpus),
        query=query,
        verdict=verdict,
        model=model,
        rerank_applied=rerank_applied,
        timings_ms=timings_ms or {},
        hits=hits,
    )


def judge(
    store: TrackerStore,
    retrieval_id: str,
    document_id: str,
    outcome: Outcome,
    *,
    at: float = 0,
    tenant: str = "acme",
) -> None:
    store.feedback(tenant, Feedback(retrieval_id, document_id, outcome, minute(at)))
