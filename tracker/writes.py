"""What the tracker's writer does, each inside a transaction that the store opens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pipeline.errors import NotFound
from tracker.database import Cursor, Row, count
from tracker.records import Feedback, HitRecord, RetentionRun, RetrievalRecord

# A whole column goes over as one list parameter: an order of magnitude faster than a row a
# statement. The map is built from a column of its keys and one of its values.
TEXT, INTEGER, NUMBER, TRUTH, TIME, TEXTS = (
    f"unnest(?::{kind}[])"
    for kind in ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMPTZ", "VARCHAR[]")
)
TEXT_TO_NUMBER = "map(unnest(?::VARCHAR[][]), unnest(?::DOUBLE[][]))"

RETRIEVAL_COLUMNS = {
    "retrieval_id": TEXT,
    "tenant": TEXT,
    "corpus": TEXT,
    "query": TEXT,
    "retrieved_at": TIME,
    "verdict": TEXT,
    "corrections": INTEGER,
    "rerank_applied": TRUTH,
    "degraded": TEXTS,
    "forward_passes": INTEGER,
    "reused_scores": INTEGER,
    "cached_scores": INTEGER,
    "shared_scores": INTEGER,
    "model": TEXT,
    "timings_ms": TEXT_TO_NUMBER,
}
HIT_COLUMNS = {
    "retrieval_id": TEXT,
    "tenant": TEXT,
    "corpus": TEXT,
    "retrieved_at": TIME,
    "model": TEXT,
    "position": INTEGER,
    "hit_id": TEXT,
    "document_id": TEXT,
    "chunk_index": INTEGER,
    "rank": INTEGER,
    "retrieval_rank": INTEGER,
    "retrieval_score": NUMBER,
    "fusion_score": NUMBER,
    "logit": NUMBER,
    "relevance": NUMBER,
    "grade": TEXT,
    "scored": TRUTH,
    "returned": TRUTH,
}
DOCUMENT_COLUMNS = {
    "tenant": TEXT,
    "corpus": TEXT,
    "document_id": TEXT,
    "title": TEXT,
    "updated_at": TIME,
}


def insert_records(cursor: Cursor, batch: Sequence[RetrievalRecord]) -> int:
    """Store the records whose id is new, with their hits; return how many there were."""
    stored = cursor.execute(
        "SELECT retrieval_id FROM retrievals WHERE retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
        [[record.retrieval_id for record in batch]],
    ).fetchall()
    known = {retrieval_id for (retrieval_id,) in stored}
    first: dict[str, RetrievalRecord] = {}
    for record in batch:
        if record.retrieval_id not in known:
            first.setdefault(record.retrieval_id, record)
    _insert(cursor, "retrievals", RETRIEVAL_COLUMNS, [_row(record) for record in first.values()])
    hits = [
        _hit_row(record, position, hit)
        for record in first.values()
        for position, hit in enumerate(record.hits)
    ]
    _insert(cursor, "retrieved_hits", HIT_COLUMNS, hits)
    return len(first)


def replace_feedback(cursor: Cursor, tenant: str, feedback: Feedback) -> None:
    """Store a judgement in place of an earlier one; NotFound if the tenant has no such
    retrieval, or the document was not among its candidates."""
    parent = cursor.execute(
        "SELECT corpus, retrieved_at FROM retrievals WHERE retrieval_id = ? AND tenant = ?",
        [feedback.retrieval_id, tenant],
    ).fetchone()
    if parent is None:
        raise NotFound("no such retrieval", param="retrieval_id")
    corpus, retrieved_at = parent
    # The time is redundant here, but it skips every row group of another time.
    key = [retrieved_at, feedback.retrieval_id, feedback.document_id]
    same = "retrieved_at = ? AND retrieval_id = ? AND document_id = ?"
    hit = cursor.execute(f"SELECT 1 FROM retrieved_hits WHERE {same} LIMIT 1", key).fetchone()
    if hit is None:
        raise NotFound("the retrieval has no such document", param="document_id")
    cursor.execute(f"DELETE FROM feedback WHERE {same}", key)
    cursor.execute(
        "INSERT INTO feedback (retrieved_at, retrieval_id, document_id, tenant, corpus, outcome,"
        " given_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [*key, tenant, corpus, feedback.outcome, feedback.given_at],
    )


def insert_run(cursor: Cursor, run: RetentionRun) -> None:
    """Store one run of the retention."""
    cursor.execute(
        "INSERT INTO retention_runs (started_at, finished_at, cutoff, deleted, error, trigger)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [run.started_at, run.finished_at, run.cutoff, run.deleted, run.error, run.trigger],
    )


def replace_documents(
    cursor: Cursor,
    tenant: str,
    corpus: str,
    documents: Sequence[tuple[str, str | None]],
    at: datetime,
) -> None:
    """Store (id, title) of documents as written `at`; of an id given twice the last counts."""
    titles = dict(documents)
    cursor.execute(
        "DELETE FROM documents WHERE tenant = ? AND corpus = ?"
        " AND document_id IN (SELECT unnest(?::VARCHAR[]))",
        [tenant, corpus, list(titles)],
    )
    rows = [(tenant, corpus, document_id, title, at) for document_id, title in titles.items()]
    _insert(cursor, "documents", DOCUMENT_COLUMNS, rows)


def mark_deleted(
    cursor: Cursor, tenant: str, corpus: str, document_ids: Sequence[str], at: datetime
) -> int:
    """Mark the documents that are known and not yet deleted; return how many there were."""
    return count(
        cursor,
        "UPDATE documents SET deleted_at = ? WHERE tenant = ? AND corpus = ?"
        " AND document_id IN (SELECT unnest(?::VARCHAR[])) AND deleted_at IS NULL",
        [at, tenant, corpus, list(document_ids)],
    )


def _insert(cursor: Cursor, table: str, columns: dict[str, str], rows: list[Row]) -> None:
    if not rows:
        return
    # Without a name DuckDB makes one of the whole list as text, which takes most of the time.
    values = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    cursor.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values}",
        [list(column) for column in zip(*rows, strict=True)],
    )


def _row(record: RetrievalRecord) -> Row:
    return (
        record.retrieval_id,
        record.tenant,
        record.corpus,
        record.query,
        record.retrieved_at,
        record.verdict,
        record.corrections,
        record.rerank_applied,
        list(record.degraded),
        record.forward_passes,
        record.reused_scores,
        record.cached_scores,
        record.shared_scores,
        record.model,
        list(record.timings_ms.keys()),
        list(record.timings_ms.values()),
    )


def _hit_row(record: RetrievalRecord, position: int, hit: HitRecord) -> Row:
    return (
        record.retrieval_id,
        record.tenant,
        record.corpus,
        record.retrieved_at,
        record.model if hit.scored else None,
        position,
        hit.hit_id,
        hit.document_id,
        hit.chunk_index,
        hit.rank,
        hit.retrieval_rank,
        hit.retrieval_score,
        hit.fusion_score,
        hit.logit,
        hit.relevance,
        hit.grade,
        hit.scored,
        hit.returned,
    )
