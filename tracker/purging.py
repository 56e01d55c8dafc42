"""Deleting what is older than a cutoff, each step inside a transaction that the store opens."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeline.errors import InvalidInput
from tracker.database import Cursor, count
from tracker.records import PurgeCounts


def purge_chunk(
    cursor: Cursor, cutoff: datetime, chunk: int, tenant: str | None, corpus: str | None
) -> PurgeCounts:
    """Delete the `chunk` oldest retrievals from before the cutoff, children first."""
    clause, parameters = _older(cutoff, tenant, corpus)
    oldest = cursor.execute(
        f"SELECT retrieval_id, retrieved_at FROM retrievals WHERE {clause}"
        " ORDER BY retrieved_at, retrieval_id LIMIT ?",
        [*parameters, chunk],
    ).fetchall()
    if not oldest:
        return PurgeCounts()
    ids = [retrieval_id for retrieval_id, _ in oldest]
    chosen = [oldest[0][1], oldest[-1][1], ids]

    def delete(table: str) -> int:
        return count(
            cursor,
            f"DELETE FROM {table} WHERE retrieved_at BETWEEN ? AND ?"
            " AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
            chosen,
        )

    hits, feedback = delete("retrieved_hits"), delete("feedback")
    return PurgeCounts(delete("retrievals"), hits, feedback)


def count_before(
    cursor: Cursor, cutoff: datetime, tenant: str | None, corpus: str | None
) -> PurgeCounts:
    """Count what a purge with the same arguments would delete."""
    clause, parameters = _older(cutoff, tenant, corpus)
    retrievals, hits, feedback = (
        count(cursor, f"SELECT count(*) FROM {table} WHERE {clause}", parameters)
        for table in ("retrievals", "retrieved_hits", "feedback")
    )
    return PurgeCounts(retrievals, hits, feedback)


def _older(cutoff: datetime, tenant: str | None, corpus: str | None) -> tuple[str, list[Any]]:
    """Return the condition, with its parameters, of what a purge deletes."""
    if corpus is not None and tenant is None:
        raise InvalidInput("a corpus is named together with its tenant", param="tenant")
    clause = "retrieved_at < ?"
    parameters: list[Any] = [cutoff]
    for column, value in (("tenant", tenant), ("corpus", corpus)):
        if value is not None:
            clause += f" AND {column} = ?"
            parameters.append(value)
    return clause, parameters
