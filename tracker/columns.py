"""The columns of the tables, named as the fields of the records that they hold.

Reads and writes both go by these names, so the order of columns means nothing anywhere.
"""

from __future__ import annotations

from dataclasses import fields

from tracker.records import (
    ComparisonRecord,
    Feedback,
    HitRecord,
    RetentionRun,
    RetrievalRecord,
)

# The SQL types, as in schema.sql; a name means the same in every table.
KINDS = {
    "retrieval_id": "VARCHAR",
    "tenant": "VARCHAR",
    "corpus": "VARCHAR",
    "query": "VARCHAR",
    "retrieved_at": "TIMESTAMPTZ",
    "verdict": "VARCHAR",
    "corrections": "BIGINT",
    "rerank_applied": "BOOLEAN",
    "degraded": "VARCHAR[]",
    "forward_passes": "BIGINT",
    "reused_scores": "BIGINT",
    "cached_scores": "BIGINT",
    "shared_scores": "BIGINT",
    "model": "VARCHAR",
    "timings_ms": "MAP(VARCHAR, DOUBLE)",
    "position": "BIGINT",
    "hit_id": "VARCHAR",
    "document_id": "VARCHAR",
    "chunk_index": "BIGINT",
    "rank": "BIGINT",
    "retrieval_rank": "BIGINT",
    "retrieval_score": "DOUBLE",
    "fusion_score": "DOUBLE",
    "logit": "DOUBLE",
    "relevance": "DOUBLE",
    "grade": "VARCHAR",
    "scored": "BOOLEAN",
    "returned": "BOOLEAN",
    "origin": "VARCHAR",
    "outcome": "VARCHAR",
    "given_at": "TIMESTAMPTZ",
    "served_model": "VARCHAR",
    "pairs": "BIGINT",
    "kendall": "DOUBLE",
    "overlap": "DOUBLE",
    "k": "BIGINT",
    "latency_ms": "DOUBLE",
    "title": "VARCHAR",
    "updated_at": "TIMESTAMPTZ",
    "started_at": "TIMESTAMPTZ",
    "finished_at": "TIMESTAMPTZ",
    "cutoff": "TIMESTAMPTZ",
    "deleted": "BIGINT",
    "error": "VARCHAR",
    "trigger": "VARCHAR",
}


def field_names(record: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields."""
    return tuple(field.name for field in fields(record))


RETRIEVAL_COLUMNS = tuple(name for name in field_names(RetrievalRecord) if name != "hits")
HIT_COLUMNS = field_names(HitRecord)
FEEDBACK_COLUMNS = field_names(Feedback)
COMPARISON_COLUMNS = field_names(ComparisonRecord)
RUN_COLUMNS = field_names(RetentionRun)
# The tables of what belongs to a retrieval and goes with it.
CHILDREN = ("retrieved_hits", "feedback", "comparisons")
# What every child repeats of its retrieval.
PARENT_COLUMNS = ("retrieval_id", "tenant", "corpus", "retrieved_at")
