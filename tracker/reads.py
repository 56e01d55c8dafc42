"""What the tracker answers, each inside a transaction that the store opens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from pipeline.errors import NotFound
from tracker.database import Cursor, Row, count
from tracker.records import (
    Counts,
    Feedback,
    HitRecord,
    RetentionStatus,
    RetrievalRecord,
    TrackedRetrieval,
    Window,
)

# In the order of the dataclasses' fields.
RETRIEVAL_FIELDS = (
    "retrieval_id, tenant, corpus, query, retrieved_at, verdict, corrections, rerank_applied,"
    " degraded, forward_passes, reused_scores, cached_scores, shared_scores, model, timings_ms"
)
HIT_FIELDS = (
    "hit_id, document_id, chunk_index, rank, retrieval_rank, retrieval_score, fusion_score,"
    " logit, relevance, grade, scored, returned"
)
FEEDBACK_FIELDS = "retrieval_id, document_id, outcome, given_at"


def select_records(
    cursor: Cursor, window: Window, limit: int, offset: int
) -> list[RetrievalRecord]:
    """Return the window's retrievals with their hits, newest first."""
    clause, parameters = _within(window, "retrieved_at")
    rows = cursor.execute(
        f"SELECT {RETRIEVAL_FIELDS} FROM retrievals WHERE {clause}"
        " ORDER BY retrieved_at DESC, retrieval_id DESC LIMIT ? OFFSET ?",
        [*parameters, limit, offset],
    ).fetchall()
    return _with_hits(cursor, rows)


def select_record(cursor: Cursor, tenant: str, retrieval_id: str) -> TrackedRetrieval:
    """Return one retrieval with hits and feedback; NotFound if the tenant has none such."""
    rows = cursor.execute(
        f"SELECT {RETRIEVAL_FIELDS} FROM retrievals WHERE retrieval_id = ? AND tenant = ?",
        [retrieval_id, tenant],
    ).fetchall()
    if not rows:
        raise NotFound("no such retrieval", param="retrieval_id")
    (record,) = _with_hits(cursor, rows)
    feedback = cursor.execute(
        f"SELECT {FEEDBACK_FIELDS} FROM feedback WHERE retrieved_at = ? AND retrieval_id = ?"
        " ORDER BY given_at, document_id",
        [record.retrieved_at, retrieval_id],
    ).fetchall()
    return TrackedRetrieval(record, tuple(_feedback(row) for row in feedback))


def select_feedback(cursor: Cursor, window: Window, limit: int, offset: int) -> list[Feedback]:
    """Return the feedback that was given in the window, newest first."""
    clause, parameters = _within(window, "given_at")
    rows = cursor.execute(
        f"SELECT {FEEDBACK_FIELDS} FROM feedback WHERE {clause}"
        " ORDER BY given_at DESC, retrieval_id DESC, document_id LIMIT ? OFFSET ?",
        [*parameters, limit, offset],
    ).fetchall()
    return [_feedback(row) for row in rows]


def select_document_ids(cursor: Cursor, window: Window) -> list[str]:
    """Return the documents that were a candidate in the window, each once, sorted."""
    clause, parameters = _within(window, "retrieved_at")
    rows = cursor.execute(
        f"SELECT DISTINCT document_id FROM retrieved_hits WHERE {clause} ORDER BY document_id",
        parameters,
    ).fetchall()
    return [document_id for (document_id,) in rows]


def count_rows(cursor: Cursor) -> Counts:
    """Count the rows of every table that grows with use."""
    retrievals, hits, feedback, documents = (
        count(cursor, f"SELECT count(*) FROM {table}")
        for table in ("retrievals", "retrieved_hits", "feedback", "documents")
    )
    return Counts(retrievals, hits, feedback, documents)


def count_orphans(cursor: Cursor) -> int:
    """Count hits and feedback without their retrieval: 0, unless the file was damaged."""
    return sum(
        count(
            cursor,
            f"SELECT count(*) FROM {table} ANTI JOIN retrievals USING (retrieval_id)",
        )
        for table in ("retrieved_hits", "feedback")
    )


def select_status(cursor: Cursor) -> RetentionStatus:
    """Return the state of the retention, by the runs that were reported."""
    runs = "SELECT finished_at, deleted, error FROM retention_runs"
    last = cursor.execute(f"{runs} ORDER BY started_at DESC LIMIT 1").fetchone()
    good = cursor.execute(f"{runs} WHERE error IS NULL ORDER BY started_at DESC LIMIT 1").fetchone()
    if last is None:
        return RetentionStatus(None, None, None, None)
    return RetentionStatus(
        last_run=_utc(last[0]),
        last_success=None if good is None else _utc(good[0]),
        last_error=last[2],
        deleted=last[1],
    )


def _within(window: Window, time_column: str) -> tuple[str, list[Any]]:
    bounds = (
        ("corpus = ?", window.corpus),
        (f"{time_column} >= ?", window.since),
        (f"{time_column} < ?", window.until),
    )
    given = [(condition, value) for condition, value in bounds if value is not None]
    clause = " AND ".join(["tenant = ?", *(condition for condition, _ in given)])
    return clause, [window.tenant, *(value for _, value in given)]


def _with_hits(cursor: Cursor, rows: Sequence[Row]) -> list[RetrievalRecord]:
    if not rows:
        return []
    times = [row[4] for row in rows]
    hits = cursor.execute(
        f"SELECT retrieval_id, {HIT_FIELDS} FROM retrieved_hits"
        " WHERE retrieved_at BETWEEN ? AND ? AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))"
        " ORDER BY retrieval_id, position",
        [min(times), max(times), [row[0] for row in rows]],
    ).fetchall()
    by_retrieval: dict[str, list[HitRecord]] = {row[0]: [] for row in rows}
    for retrieval_id, *fields in hits:
        by_retrieval[retrieval_id].append(HitRecord(*fields))
    return [_record(row, by_retrieval[row[0]]) for row in rows]


def _record(row: Row, hits: Sequence[HitRecord]) -> RetrievalRecord:
    fields = [*row[:4], _utc(row[4]), *row[5:8], tuple(row[8]), *row[9:], tuple(hits)]
    return RetrievalRecord(*fields)


def _feedback(row: Row) -> Feedback:
    retrieval_id, document_id, outcome, given_at = row
    return Feedback(retrieval_id, document_id, outcome, _utc(given_at))


def _utc(value: datetime) -> datetime:
    """DuckDB answers in a zoneinfo zone; the standard library's UTC is smaller and pickles."""
    return value.astimezone(timezone.utc)
