"""What the tracker's writer does, each inside a transaction that the store opens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from pipeline.errors import NotFound
from tracker.columns import (
    COMPARISON_COLUMNS,
    FEEDBACK_COLUMNS,
    HIT_COLUMNS,
    KINDS,
    PARENT_COLUMNS,
    RETRIEVAL_COLUMNS,
    RUN_COLUMNS,
)
from tracker.database import Cursor, count
from tracker.records import ComparisonRecord, Feedback, RetentionRun, RetrievalRecord

Columns = Mapping[str, Sequence[Any]]  # a name and the column's values, one for each row


class Parent(NamedTuple):
    """What every child repeats of its retrieval, in the order of PARENT_COLUMNS."""

    retrieval_id: str
    tenant: str
    corpus: str
    retrieved_at: datetime


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
    new = list(first.values())
    insert(cursor, "retrievals", retrieval_columns(new))
    insert(cursor, "retrieved_hits", hit_columns(new))
    return len(new)


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
    copied = {"tenant": [tenant], "corpus": [corpus], "retrieved_at": [retrieved_at]}
    insert(cursor, "feedback", {**columns_of([feedback], FEEDBACK_COLUMNS), **copied})


def insert_comparisons(cursor: Cursor, batch: Sequence[ComparisonRecord]) -> list[str]:
    """Store the comparisons that are new, under their retrieval's own corpus and time; return
    the ids of retrievals that the tenant does not have, whose comparisons are left out."""
    parents = find_parents(cursor, [one.retrieval_id for one in batch])
    stored = find_compared(cursor, parents.values())
    first: dict[tuple[str, str], ComparisonRecord] = {}
    missing: dict[str, None] = {}
    for one in batch:
        parent = parents.get((one.retrieval_id, one.tenant))
        if parent is None:
            missing[one.retrieval_id] = None
        elif (one.retrieval_id, one.model) not in stored:
            known = replace(one, corpus=parent.corpus, retrieved_at=parent.retrieved_at)
            first.setdefault((one.retrieval_id, one.model), known)
    insert(cursor, "comparisons", columns_of(list(first.values()), COMPARISON_COLUMNS))
    return list(missing)


def find_parents(cursor: Cursor, ids: Sequence[str]) -> dict[tuple[str, str], Parent]:
    """Return what children repeat of the retrievals that are stored, by id and tenant."""
    rows = cursor.execute(
        f"SELECT {', '.join(PARENT_COLUMNS)} FROM retrievals"
        " WHERE retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
        [ids],
    ).fetchall()
    parents = [Parent(*row) for row in rows]
    return {(parent.retrieval_id, parent.tenant): parent for parent in parents}


def find_compared(cursor: Cursor, parents: Collection[Parent]) -> set[tuple[str, str]]:
    """Return the retrievals' comparisons that are stored, as retrieval and model."""
    if not parents:
        return set()
    times = [parent.retrieved_at for parent in parents]
    rows = cursor.execute(
        "SELECT retrieval_id, model FROM comparisons"
        " WHERE retrieved_at BETWEEN ? AND ? AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
        [min(times), max(times), [parent.retrieval_id for parent in parents]],
    ).fetchall()
    return {(retrieval_id, model) for retrieval_id, model in rows}


def insert_run(cursor: Cursor, run: RetentionRun) -> None:
    """Store one run of the retention."""
    insert(cursor, "retention_runs", columns_of([run], RUN_COLUMNS))


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
    columns: Columns = {
        "tenant": [tenant] * len(titles),
        "corpus": [corpus] * len(titles),
        "document_id": list(titles.keys()),
        "title": list(titles.values()),
        "updated_at": [at] * len(titles),
    }
    insert(cursor, "documents", columns)


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


def mark_corpus_deleted(cursor: Cursor, tenant: str, corpus: str, at: datetime) -> int:
    """Mark all of a corpus's documents that are not yet deleted; return how many there were."""
    return count(
        cursor,
        "UPDATE documents SET deleted_at = ?"
        " WHERE tenant = ? AND corpus = ? AND deleted_at IS NULL",
        [at, tenant, corpus],
    )


def insert(cursor: Cursor, table: str, columns: Columns) -> None:
    """Insert rows, given as columns of one length; none is no error.

    A whole column goes over as one list parameter: an order of magnitude faster than a row a
    statement.
    """
    if not any(columns.values()):
        return
    # Without a name DuckDB makes one of the whole list as text, which takes most of the time.
    values = ", ".join(f"unnest(?::{KINDS[name]}[]) AS {name}" for name in columns)
    cursor.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values}", list(columns.values())
    )


def retrieval_columns(records: Sequence[RetrievalRecord]) -> Columns:
    timings = [as_map(record.timings_ms) for record in records]
    return {**columns_of(records, RETRIEVAL_COLUMNS), "timings_ms": timings}


def hit_columns(records: Sequence[RetrievalRecord]) -> Columns:
    """The columns of all the records' hits: their own fields, and what comes from the record."""
    parents = [record for record in records for _ in record.hits]
    hits = [hit for record in records for hit in record.hits]
    return {
        **columns_of(parents, PARENT_COLUMNS),
        **columns_of(hits, HIT_COLUMNS),
        "position": [place for record in records for place in range(len(record.hits))],
        "model": [
            parent.model if hit.scored else None for parent, hit in zip(parents, hits, strict=True)
        ],
    }


def columns_of(records: Sequence[object], names: Iterable[str]) -> Columns:
    return {name: [getattr(record, name) for record in records] for name in names}


def as_map(values: Mapping[str, float]) -> dict[str, list[Any]]:
    """DuckDB takes a dictionary for a structure, unless it holds a map's keys and values."""
    return {"key": list(values.keys()), "value": list(values.values())}
