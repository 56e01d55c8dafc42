"""What the tracker answers, each inside a transaction that the store opens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from pipeline.errors import NotFound
from tracker.columns import (
    CHILDREN,
    COMPARISON_COLUMNS,
    FEEDBACK_COLUMNS,
    HIT_COLUMNS,
    RETRIEVAL_COLUMNS,
    field_names,
)
from tracker.database import Cursor, count
from tracker.records import (
    ComparisonRecord,
    Counts,
    Damage,
    Feedback,
    HitRecord,
    JudgedScore,
    RetentionStatus,
    RetrievalRecord,
    TrackedRetrieval,
    Window,
)

Row = dict[str, Any]  # a value under the name of its column


def select_records(
    cursor: Cursor, window: Window, limit: int, offset: int
) -> list[RetrievalRecord]:
    """Return the window's retrievals with their hits, newest first."""
    order = "retrieved_at DESC, retrieval_id DESC"
    page = (limit, offset)
    return with_hits(
        cursor, select_page(cursor, RETRIEVAL_COLUMNS, "retrievals", window, order, page)
    )


def select_retrievals(
    cursor: Cursor, window: Window, limit: int, after: tuple[datetime, str] | None
) -> list[RetrievalRecord]:
    """Return the window's retrievals without their hits, newest first, from behind `after` on."""
    clause, parameters = within(window, "retrieved_at")
    if after is not None:
        clause += " AND retrieved_at <= ? AND (retrieved_at < ? OR retrieval_id < ?)"
        parameters += [after[0], *after]
    rows = select(
        cursor,
        RETRIEVAL_COLUMNS,
        f"FROM retrievals WHERE {clause} ORDER BY retrieved_at DESC, retrieval_id DESC LIMIT ?",
        [*parameters, limit],
    )
    return [read_record(row, ()) for row in rows]


def select_record(cursor: Cursor, tenant: str, retrieval_id: str) -> TrackedRetrieval:
    """Return one retrieval with hits and feedback; NotFound if the tenant has none such."""
    rows = select(
        cursor,
        RETRIEVAL_COLUMNS,
        "FROM retrievals WHERE retrieval_id = ? AND tenant = ?",
        [retrieval_id, tenant],
    )
    if not rows:
        raise NotFound("no such retrieval", param="retrieval_id")
    (record,) = with_hits(cursor, rows)
    feedback = select(
        cursor,
        FEEDBACK_COLUMNS,
        "FROM feedback WHERE retrieved_at = ? AND retrieval_id = ? ORDER BY given_at, document_id",
        [record.retrieved_at, retrieval_id],
    )
    return TrackedRetrieval(record, tuple(read_feedback(row) for row in feedback))


def select_feedback(cursor: Cursor, window: Window, limit: int, offset: int) -> list[Feedback]:
    """Return the feedback that was given in the window, newest first."""
    order = "given_at DESC, retrieval_id DESC, document_id"
    page = (limit, offset)
    rows = select_page(cursor, FEEDBACK_COLUMNS, "feedback", window, order, page)
    return [read_feedback(row) for row in rows]


def select_comparisons(
    cursor: Cursor, window: Window, limit: int, offset: int
) -> list[ComparisonRecord]:
    """Return the comparisons of the window's retrievals, newest first."""
    order = "retrieved_at DESC, retrieval_id DESC, model"
    page = (limit, offset)
    rows = select_page(cursor, COMPARISON_COLUMNS, "comparisons", window, order, page)
    return [read_comparison(row) for row in rows]


def select_judged_scores(
    cursor: Cursor, window: Window, limit: int, offset: int
) -> list[JudgedScore]:
    """Return the feedback given in the window on scored documents of the corpora themselves,
    newest first."""
    clause, parameters = within(window, "given_at")
    rows = select(
        cursor,
        field_names(JudgedScore),
        f"""
        FROM (
            SELECT retrieval_id, document_id, outcome, given_at,
                   max(relevance) AS relevance, arg_max(model, relevance) AS model
            FROM (SELECT * EXCLUDE (tenant, corpus) FROM feedback WHERE {clause})
            JOIN retrieved_hits USING (retrieved_at, retrieval_id, document_id)
            WHERE relevance IS NOT NULL AND model IS NOT NULL AND origin IS NULL
            GROUP BY ALL
        ) ORDER BY given_at DESC, retrieval_id DESC, document_id LIMIT ? OFFSET ?""",
        [*parameters, limit, offset],
    )
    return [JudgedScore(**row) for row in rows]


def select_document_ids(cursor: Cursor, window: Window) -> list[str]:
    """Return the corpora's own documents that were a candidate in the window, each once, sorted."""
    clause, parameters = within(window, "retrieved_at")
    rows = cursor.execute(
        f"SELECT DISTINCT document_id FROM retrieved_hits WHERE {clause} AND origin IS NULL"
        " ORDER BY document_id",
        parameters,
    ).fetchall()
    return [document_id for (document_id,) in rows]


def count_rows(cursor: Cursor) -> Counts:
    """Count the rows of every table that grows with use."""
    retrievals, hits, feedback, comparisons, documents = (
        count(cursor, f"SELECT count(*) FROM {table}")
        for table in ("retrievals", *CHILDREN, "documents")
    )
    return Counts(retrievals, hits, feedback, documents, comparisons)


def count_orphans(cursor: Cursor) -> int:
    """Count children without their retrieval: 0, unless the file was damaged."""
    return sum(
        count(
            cursor,
            f"SELECT count(*) FROM {table} ANTI JOIN retrievals USING (retrieval_id)",
        )
        for table in CHILDREN
    )


def select_status(cursor: Cursor) -> RetentionStatus:
    """Return the state of the retention, by the rounds that were reported."""
    rounds = """
        SELECT started_at, max(finished_at), sum(deleted)::BIGINT, min(error)
        FROM retention_runs GROUP BY started_at"""
    newest = "ORDER BY started_at DESC LIMIT 1"
    last = cursor.execute(f"{rounds} {newest}").fetchone()
    good = cursor.execute(f"{rounds} HAVING count(error) = 0 {newest}").fetchone()
    if last is None:
        return RetentionStatus(None, None, None, None)
    _, finished_at, deleted, error = last
    return RetentionStatus(
        last_run=utc(finished_at),
        last_success=None if good is None else utc(good[1]),
        last_error=error,
        deleted=deleted,
    )


def select_damages(cursor: Cursor) -> list[Damage]:
    """Return all damage that was found in this file's life, oldest first."""
    rows = select(cursor, field_names(Damage), "FROM damages ORDER BY found_at")
    return [
        Damage(utc(row["found_at"]), tuple(row["set_aside"]), row["possibly_lost"]) for row in rows
    ]


def select(
    cursor: Cursor, columns: Sequence[str], source: str, parameters: Sequence[object] = ()
) -> list[Row]:
    """Return the rows of a query that goes on with `source`, each value under its column."""
    rows = cursor.execute(f"SELECT {', '.join(columns)} {source}", list(parameters)).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in rows]


def select_page(
    cursor: Cursor,
    columns: Sequence[str],
    table: str,
    window: Window,
    order: str,
    page: tuple[int, int],
) -> list[Row]:
    """Return a table's rows of a window, by the time that `order` begins with; `page` is limit
    and offset."""
    clause, parameters = within(window, order.split()[0])
    source = f"FROM {table} WHERE {clause} ORDER BY {order} LIMIT ? OFFSET ?"
    return select(cursor, columns, source, [*parameters, *page])


def within(window: Window, time_column: str) -> tuple[str, list[Any]]:
    bounds = (
        ("corpus = ?", window.corpus),
        (f"{time_column} >= ?", window.since),
        (f"{time_column} < ?", window.until),
    )
    given = [(condition, value) for condition, value in bounds if value is not None]
    clause = " AND ".join(["tenant = ?", *(condition for condition, _ in given)])
    return clause, [window.tenant, *(value for _, value in given)]


def with_hits(cursor: Cursor, rows: Sequence[Row]) -> list[RetrievalRecord]:
    if not rows:
        return []
    times = [row["retrieved_at"] for row in rows]
    ids = [row["retrieval_id"] for row in rows]
    hits = select(
        cursor,
        ("retrieval_id", *HIT_COLUMNS),
        "FROM retrieved_hits"
        " WHERE retrieved_at BETWEEN ? AND ? AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))"
        " ORDER BY retrieval_id, position",
        [min(times), max(times), ids],
    )
    by_retrieval: dict[str, list[HitRecord]] = {retrieval_id: [] for retrieval_id in ids}
    for hit in hits:
        by_retrieval[hit.pop("retrieval_id")].append(HitRecord(**hit))
    return [read_record(row, by_retrieval[row["retrieval_id"]]) for row in rows]


def read_record(row: Row, hits: Sequence[HitRecord]) -> RetrievalRecord:
    differing = {
        "retrieved_at": utc(row["retrieved_at"]),
        "degraded": tuple(row["degraded"]),
        "hits": tuple(hits),
    }
    return RetrievalRecord(**{**row, **differing})


def read_feedback(row: Row) -> Feedback:
    return Feedback(**{**row, "given_at": utc(row["given_at"])})


def read_comparison(row: Row) -> ComparisonRecord:
    return ComparisonRecord(**{**row, "retrieved_at": utc(row["retrieved_at"])})


def utc(value: datetime) -> datetime:
    """DuckDB answers in a zoneinfo zone; the standard library's UTC is smaller and pickles."""
    return value.astimezone(timezone.utc)
