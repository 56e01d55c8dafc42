"""The example of docs/reports.md: the rows that are printed there, in a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, get_args

from tests.docs.pages import ROOT, section, table
from tests.records import hit_record, record
from tracker.records import Feedback, HitRecord, Outcome, RetrievalRecord, Window
from tracker.store import TrackerStore

PAGE = (ROOT / "docs" / "reports.md").read_text()
EXAMPLE = section(PAGE, "The example")
TENANT, CORPUS = "acme", "docs"
WINDOW = Window(TENANT, CORPUS, until=datetime(2026, 4, 1, tzinfo=timezone.utc))
STAGES = ("retrieve", "rerank", "total")
SEARCH = ("search", "at", "query", "verdict", "model", "passes", "cached", "shared", "reused")


def fill(store: TrackerStore) -> None:
    """Store the printed rows."""
    for id, title, updated in table(EXAMPLE, "document", "title", "updated"):
        store.record_documents(TENANT, CORPUS, [(id, title)], at=time_of(updated))
    searches = [dict(zip((*SEARCH, *STAGES), row, strict=True)) for row in search_rows()]
    store.record([retrieval_of(row) for row in searches])
    ends = {row["search"]: time_of(row["at"]) for row in searches}
    for search, document, outcome in table(EXAMPLE, "search", "document", "outcome"):
        assert outcome in get_args(Outcome)
        given: Any = outcome
        store.feedback(TENANT, Feedback(search, document, given, ends[search]))


def search_rows() -> list[list[str]]:
    return table(EXAMPLE, *SEARCH, *STAGES)


def retrieval_of(row: dict[str, str]) -> RetrievalRecord:
    return replace(
        record(
            retrieval_id=row["search"],
            at=time_of(row["at"]),
            tenant=TENANT,
            corpus=CORPUS,
            query=row["query"],
        ),
        verdict=row["verdict"],
        model=row["model"],
        forward_passes=int(row["passes"]),
        cached_scores=int(row["cached"]),
        shared_scores=int(row["shared"]),
        reused_scores=int(row["reused"]),
        timings_ms={stage: float(row[stage]) for stage in STAGES},
        hits=hits_of(row["search"]),
    )


def hits_of(search: str) -> tuple[HitRecord, ...]:
    columns = ("search", "chunk", "fusion", "logit", "relevance", "grade", "rank")
    return tuple(hit_of(*row[1:]) for row in table(EXAMPLE, *columns) if row[0] == search)


def hit_of(chunk: str, fusion: str, logit: str, relevance: str, grade: str, rank: str) -> HitRecord:
    document, _, number = chunk.partition("#")
    return replace(
        hit_record(document, 1),
        hit_id=chunk,
        chunk_index=int(number),
        fusion_score=float(fusion),
        logit=float(logit),
        relevance=float(relevance),
        grade=grade,
        rank=int(rank) if rank else None,
        returned=bool(rank),
    )


def time_of(cell: str) -> datetime:
    return datetime.fromisoformat(cell).replace(tzinfo=timezone.utc)


def cell_of(value: Any) -> str:
    """A value as the page prints it: four digits, minutes, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(value) if isinstance(value, list) else str(value)
