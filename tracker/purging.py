"""Deleting what is older than a cutoff, each step inside a transaction that the store opens."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tracker.columns import CHILDREN
from tracker.database import Cursor, count
from tracker.records import PurgeCounts


def purge_chunk(cursor: Cursor, cutoff: datetime, chunk: int, tenant: str | None) -> PurgeCounts:
    """Delete the `chunk` oldest retrievals from before the cutoff, children first; of one tenant,
    or of all (None)."""
    condition, values = older(cutoff, tenant)
    oldest = cursor.execute(
        f"SELECT retrieval_id, retrieved_at FROM retrievals WHERE {condition}"
        " ORDER BY retrieved_at, retrieval_id LIMIT ?",
        [*values, chunk],
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

    hits, feedback, comparisons = (delete(table) for table in CHILDREN)
    return PurgeCounts(delete("retrievals"), hits, feedback, comparisons)


def count_before(cursor: Cursor, cutoff: datetime, tenant: str | None) -> PurgeCounts:
    """Count what a purge with the same cutoff and tenant would delete."""
    condition, values = older(cutoff, tenant)
    retrievals, hits, feedback, comparisons = (
        count(cursor, f"SELECT count(*) FROM {table} WHERE {condition}", values)
        for table in ("retrievals", *CHILDREN)
    )
    return PurgeCounts(retrievals, hits, feedback, comparisons)


def older(cutoff: datetime, tenant: str | None) -> tuple[str, list[Any]]:
    """Return the condition on what is to go, which every table can be asked, and its values."""
    if tenant is None:
        return "retrieved_at < ?", [cutoff]
    return "retrieved_at < ? AND tenant = ?", [cutoff, tenant]
