"""What the tracking benchmark writes, and the shape of work that it is compared with."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from tracker.ids import new_retrieval_id
from tracker.records import HitRecord, RetrievalRecord
from tracker.store import TrackerStore


class Shape(NamedTuple):
    """How SQLite is written: FULL, its default, syncs each commit, as DuckDB does."""

    synchronous: str
    commits_rows: bool


SHAPES: Mapping[str, Shape] = {
    "a commit a row": Shape("FULL", commits_rows=True),
    "a commit a request": Shape("FULL", commits_rows=False),
    "not durable": Shape("NORMAL", commits_rows=False),
}
HIT = HitRecord("doc1#0", "doc1", 0, 1, 1, 0.61, 0.0325, 3.1, 0.957, "correct", True, True)

SQLITE_SCHEMA = """
CREATE TABLE retrievals (
    id TEXT PRIMARY KEY, tenant TEXT, corpus TEXT, query TEXT, made TEXT, model TEXT,
    verdict TEXT, timings TEXT
);
CREATE TABLE hits (
    retrieval TEXT REFERENCES retrievals (id) ON DELETE CASCADE, document TEXT, chunk INTEGER,
    rank INTEGER, score REAL, relevance REAL, grade TEXT
);
CREATE INDEX by_retrieval ON hits (retrieval);
"""
# A retrieval every so many microseconds, its id a UUIDv7 of that moment.
RETRIEVALS = """
INSERT INTO retrievals
SELECT h[1:8] || '-' || h[9:12] || '-7000-8000-' || lpad(i::VARCHAR, 12, '0'), 't' || i % 5,
       'c' || i % 3, 'a query about the number ' || hash(i) % 20000, made, 'correct', 0, true, [],
       30, 30, 0, 0, 'minilm@1f3c',
       MAP {'retrieve': 9.8, 'correct': 800.0 + i % 100, 'total': 828.1}
FROM (
    SELECT i, made, lpad(lower(hex(epoch_ms(made))), 12, '0') AS h
    FROM (SELECT i, ?::TIMESTAMPTZ + to_microseconds(i * ?) AS made FROM range(?) t(i))
)"""
HITS = """
INSERT INTO retrieved_hits BY NAME
SELECT retrieval_id, tenant, corpus, retrieved_at, model, j AS position,
       'doc' || hash(retrieval_id || j) % 50000 || '#0' AS hit_id,
       'doc' || hash(retrieval_id || j) % 50000 AS document_id, 0 AS chunk_index, j + 1 AS rank,
       j + 1 AS retrieval_rank, 0.6 - j * 0.01 AS retrieval_score, 0.03 - j * 0.001 AS fusion_score,
       3.1 - j AS logit, 1 / (1 + exp(j - 3.1)) AS relevance, 'correct' AS grade, true AS scored,
       true AS returned
FROM (SELECT * FROM retrievals WHERE retrieved_at >= ? ORDER BY retrieved_at), range(10) r(j)"""


def retrieval(hits: int) -> RetrievalRecord:
    """A retrieval of now with so many hits of as many documents."""
    return RetrievalRecord(
        retrieval_id=new_retrieval_id(),
        tenant="t0",
        corpus="c0",
        query="how much is a night ticket for a child",
        retrieved_at=datetime.now(timezone.utc),
        verdict="correct",
        corrections=0,
        rerank_applied=True,
        degraded=(),
        forward_passes=30,
        reused_scores=30,
        cached_scores=0,
        shared_scores=0,
        model="minilm@1f3c",
        timings_ms={"embed": 4.2, "retrieve": 9.8, "correct": 812.0, "total": 828.1},
        hits=(HIT,) * hits,
    )


def fill(path: Path, count: int, since: datetime, span: timedelta) -> None:
    """Add retrievals with 10 hits each, evenly over a span, to a tracker's file or a new one."""
    TrackerStore.open(path, memory_limit="512MB", threads=1).close()
    step = int(span / timedelta(microseconds=1)) // count
    with duckdb.connect(str(path), config={"memory_limit": "512MB", "threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(RETRIEVALS, [since, step, count])
        connection.execute(HITS, [since])


class SqliteTracker:
    """A request's record written in the request, a statement a row, in WAL mode."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._shape = shape
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {shape.synchronous}")
        self._connection.executescript(SQLITE_SCHEMA)

    def __enter__(self) -> SqliteTracker:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rate(self, records: Sequence[RetrievalRecord]) -> float:
        """Records a second."""
        started = time.perf_counter()
        for record in records:
            self.record(record)
        return len(records) / (time.perf_counter() - started)

    def record(self, record: RetrievalRecord) -> None:
        execute = self._connection.execute
        if not self._shape.commits_rows:
            execute("BEGIN")
        execute("INSERT INTO retrievals VALUES (?, ?, ?, ?, ?, ?, ?, ?)", parent_row(record))
        for hit in record.hits:
            execute("INSERT INTO hits VALUES (?, ?, ?, ?, ?, ?, ?)", hit_row(record, hit))
        if not self._shape.commits_rows:
            execute("COMMIT")


def hit_row(record: RetrievalRecord, hit: HitRecord) -> tuple[Any, ...]:
    return (
        record.retrieval_id,
        hit.document_id,
        hit.chunk_index,
        hit.rank,
        hit.retrieval_score,
        hit.relevance,
        hit.grade,
    )


def parent_row(record: RetrievalRecord) -> tuple[Any, ...]:
    return (
        record.retrieval_id,
        record.tenant,
        record.corpus,
        record.query,
        record.retrieved_at.isoformat(),
        record.model,
        record.verdict,
        json.dumps(dict(record.timings_ms)),
    )
