"""Deleting what is older than a cutoff, each step inside a transaction that the store opens."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tracker.columns import CHILDREN
from tracker.database import Cursor, count
from tracker.records import PurgeCounts, Scope

STEP_S = 0.06
SMALLEST_CHUNK, LARGEST_CHUNK = 50, 20_000


def next_chunk(chunk: int, seconds: float) -> int:
    """Return the size of the next step, so that it takes about STEP_S: other writes wait for one.

    What a step costs depends on how many hits a retrieval has, and on what else the machine does;
    so it grows slowly and shrinks at once.
    """
    wanted = chunk * min(STEP_S / max(seconds, 1e-3), 1.5)
    return int(min(max(wanted, SMALLEST_CHUNK), LARGEST_CHUNK))


def purge_chunk(cursor: Cursor, cutoff: datetime, chunk: int, scope: Scope) -> PurgeCounts:
    """Delete up to `chunk` retrievals of the scope from before the cutoff, oldest first, with all
    that belongs to them."""
    beyond = cursor.execute(
        f"SELECT retrieved_at FROM retrievals WHERE {(condition := within(scope))}"
        " AND retrieved_at < ? ORDER BY retrieved_at LIMIT 1 OFFSET ?",
        [*(values := values_of(scope)), cutoff, chunk],
    ).fetchone()
    until = cutoff if beyond is None else beyond[0]
    # Children carry their retrieval's time, tenant and corpus: no ids are needed.
    deleted = delete(cursor, f"{condition} AND retrieved_at < ?", [*values, until])
    if beyond is None or deleted.retrievals:
        return deleted
    return delete_some_of(cursor, f"{condition} AND retrieved_at = ?", [*values, until], chunk)


def delete_some_of(cursor: Cursor, moment: str, values: list[Any], chunk: int) -> PurgeCounts:
    """Delete `chunk` of the retrievals of one moment, which are more than that."""
    rows = cursor.execute(
        f"SELECT retrieval_id FROM retrievals WHERE {moment} LIMIT ?", [*values, chunk]
    ).fetchall()
    ids = [retrieval_id for (retrieval_id,) in rows]
    chosen = f"{moment} AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))"
    return delete(cursor, chosen, [*values, ids])


def delete(cursor: Cursor, condition: str, values: list[Any]) -> PurgeCounts:
    """Delete what a condition names that every table can be asked; children first."""
    hits, feedback, comparisons, retrievals = (
        count(cursor, f"DELETE FROM {table} WHERE {condition}", values)
        for table in (*CHILDREN, "retrievals")
    )
    return PurgeCounts(retrievals, hits, feedback, comparisons)


def count_before(cursor: Cursor, cutoff: datetime, scope: Scope) -> PurgeCounts:
    """Count what a purge with the same cutoff and scope would delete."""
    condition = f"{within(scope)} AND retrieved_at < ?"
    retrievals, hits, feedback, comparisons = (
        count(
            cursor, f"SELECT count(*) FROM {table} WHERE {condition}", [*values_of(scope), cutoff]
        )
        for table in ("retrievals", *CHILDREN)
    )
    return PurgeCounts(retrievals, hits, feedback, comparisons)


def within(scope: Scope) -> str:
    """Return the condition on a scope's rows; `values_of` has its values."""
    spared = [f"NOT ({of(tenant, corpus)})" for tenant, corpus in scope.but]
    return " AND ".join([of(scope.tenant, scope.corpus), *spared])


def of(tenant: str | None, corpus: str | None) -> str:
    named = [name for name, value in (("tenant", tenant), ("corpus", corpus)) if value is not None]
    return " AND ".join(f"{name} = ?" for name in named) or "true"


def values_of(scope: Scope) -> list[str]:
    pairs = ((scope.tenant, scope.corpus), *scope.but)
    return [value for pair in pairs for value in pair if value is not None]
