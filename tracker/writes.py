"""What the tracker's writer does, each inside a transaction that the store opens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from pipeline.errors import NotFound
from tracker.columns import (
    COMPARISON_COLUMNS,
    FEEDBACK_COLUMNS,
    HIT_COLUMNS,
    PARENT_COLUMNS,
    RETRIEVAL_COLUMNS,
    RUN_COLUMNS,
)
from tracker.database import Cursor, count
from tracker.inserting import Columns, insert
from tracker.records import ComparisonRecord, Feedback, RetentionRun, RetrievalRecord

# Retrievals as close as this are looked for together.
CLOSE = timedelta(hours=1)


class Parent(NamedTuple):
    """What every child repeats of its retrieval, in the order of PARENT_COLUMNS."""

    retrieval_id: str
    tenant: str
    corpus: str
    retrieved_at: datetime


def insert_records(cursor: Cursor, batch: Sequence[RetrievalRecord]) -> list[str]:
    """Store the records whose id is new, with their hits; return the ids."""
    ids = [record.retrieval_id for record in batch]
    # The bounds are redundant, but ids sort by time, so they skip every row group of another one;
    # the list alone would be looked for in all of them.
    stored = cursor.execute(
        "SELECT retrieval_id FROM retrievals WHERE retrieval_id BETWEEN ? AND ?"
        " AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
        [min(ids, default=""), max(ids, default=""), ids],
    ).fetchall()
    known = {retrieval_id for (retrieval_id,) in stored}
    first: dict[str, RetrievalRecord] = {}
    for record in batch:
        if record.retrieval_id not in known:
            first.setdefault(record.retrieval_id, record)
    new = list(first.values())
    insert(cursor, "retrievals", retrieval_columns(new))
    insert(cursor, "retrieved_hits", hit_columns(new))
    return list(first)


def replace_feedback(
    cursor: Cursor, batch: Sequence[tuple[str, Feedback]]
) -> list[NotFound | None]:
    """Store judgements, each with its tenant, in place of earlier ones; of one key given twice
    the last counts. The answers, one each, say which retrieval or document is not there."""
    parents = find_parents(cursor, [feedback.retrieval_id for _, feedback in batch])
    documents = find_documents(cursor, list(parents.values()))
    answers: list[NotFound | None] = []
    kept: dict[tuple[str, str], tuple[Parent, Feedback]] = {}
    for tenant, feedback in batch:
        key = (feedback.retrieval_id, feedback.document_id)
        parent = parents.get((feedback.retrieval_id, tenant))
        if parent is None:
            answers.append(NotFound("no such retrieval", param="retrieval_id"))
        elif key not in documents:
            answers.append(NotFound("the retrieval has no such document", param="document_id"))
        else:
            answers.append(None)
            kept[key] = (parent, feedback)
    delete_feedback(cursor, [parent for parent, _ in kept.values()], list(kept))
    insert(
        cursor,
        "feedback",
        {
            **columns_of([parent for parent, _ in kept.values()], PARENT_COLUMNS),
            **columns_of([feedback for _, feedback in kept.values()], FEEDBACK_COLUMNS),
        },
    )
    return answers


def find_documents(cursor: Cursor, parents: Sequence[Parent]) -> set[tuple[str, str]]:
    """Return the candidates of retrievals, as retrieval and document."""
    found: set[tuple[str, str]] = set()
    for one_time in by_time(parents):
        rows = cursor.execute(
            "SELECT DISTINCT retrieval_id, document_id FROM retrieved_hits"
            " WHERE retrieved_at BETWEEN ? AND ? AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
            [
                one_time[0].retrieved_at,
                one_time[-1].retrieved_at,
                [parent.retrieval_id for parent in one_time],
            ],
        ).fetchall()
        found.update(rows)
    return found


def by_time(parents: Sequence[Parent]) -> list[list[Parent]]:
    """Part retrievals by time, so that those of each part lie close together in the file: looking
    for an old one and a new one at once would read all that lies between."""
    parts: list[list[Parent]] = []
    for parent in sorted(parents, key=lambda parent: parent.retrieved_at):
        if parts and parent.retrieved_at - parts[-1][0].retrieved_at < CLOSE:
            parts[-1].append(parent)
        else:
            parts.append([parent])
    return parts


def delete_feedback(
    cursor: Cursor, parents: Sequence[Parent], keys: Sequence[tuple[str, str]]
) -> None:
    if not keys:
        return
    times = [parent.retrieved_at for parent in parents]
    cursor.execute(
        "DELETE FROM feedback USING"
        " (SELECT unnest(?::VARCHAR[]) AS retrieval, unnest(?::VARCHAR[]) AS document)"
        " WHERE retrieved_at BETWEEN ? AND ?"
        " AND retrieval_id = retrieval AND document_id = document",
        [*(list(part) for part in zip(*keys, strict=True)), min(times), max(times)],
    )


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
        f"SELECT {', '.join(PARENT_COLUMNS)} FROM retrievals WHERE retrieval_id BETWEEN ? AND ?"
        " AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
        [min(ids, default=""), max(ids, default=""), ids],
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


def retrieval_columns(records: Sequence[RetrievalRecord]) -> Columns:
    timings = [dict(record.timings_ms) for record in records]
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
    named = tuple(names)
    rows = map(attrgetter(*named), records)
    return dict(zip(named, zip(*rows, strict=True), strict=True)) if records else empty(named)


def empty(names: Iterable[str]) -> Columns:
    return dict.fromkeys(names, ())
