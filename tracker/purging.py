"""Deleting what is older than a cutoff, each step inside a transaction that the store opens."""

from __future__ import annotations

from datetime import datetime

from tracker.columns import CHILDREN
from tracker.database import Cursor, count
from tracker.records import PurgeCounts


def purge_chunk(cursor: Cursor, cutoff: datetime, chunk: int) -> PurgeCounts:
    """Delete the `chunk` oldest retrievals from before the cutoff, children first."""
    oldest = cursor.execute(
        "SELECT retrieval_id, retrieved_at FROM retrievals WHERE retrieved_at < ?"
        " ORDER BY retrieved_at, retrieval_id LIMIT ?",
        [cutoff, chunk],
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


def count_before(cursor: Cursor, cutoff: datetime) -> PurgeCounts:
    """Count what a purge with the same cutoff would delete."""
    retrievals, hits, feedback, comparisons = (
        count(cursor, f"SELECT count(*) FROM {table} WHERE retrieved_at < ?", [cutoff])
        for table in ("retrievals", *CHILDREN)
    )
    return PurgeCounts(retrievals, hits, feedback, comparisons)
