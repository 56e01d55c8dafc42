"""The rows of the reports, one class each: what docs/reports.md says of them, as types.

A count is 0 where nothing was found, and a mean, a share or a quantile of nothing is None.
"Retrieved" is what a search considered, "returned" what its answer held. Times are in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tracker.records import ComparisonRecord, JudgedScore

Signal = Literal["low_quality", "stale", "never_retrieved"]


@dataclass(frozen=True, slots=True)
class DocumentStats:
    """How often a document was found, how well it scored and how it was judged."""

    corpus: str
    document_id: str
    chunks_retrieved: int
    chunks_returned: int
    retrievals: int
    first_retrieved_at: datetime
    last_retrieved_at: datetime
    mean_relevance: float | None
    best_relevance: float | None
    not_relevant: int
    partially_relevant: int
    relevant: int
    highly_relevant: int


@dataclass(frozen=True, slots=True)
class UnretrievedDocument:
    """A document that no search considered."""

    corpus: str
    document_id: str
    title: str | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class QualitySignal:
    """A document that needs a look, and why."""

    signal: Signal
    corpus: str
    document_id: str
    title: str | None
    chunks_retrieved: int
    last_retrieved_at: datetime | None
    judged: int
    not_relevant_share: float | None


@dataclass(frozen=True, slots=True)
class LowRelevanceQuery:
    """A query whose best hit does not answer it, by the cross-encoder."""

    corpus: str
    query: str
    searches: int
    mean_best_relevance: float
    best_relevance: float
    last_searched_at: datetime


@dataclass(frozen=True, slots=True)
class ZeroHitQuery:
    """A query that was answered with no hit: nothing was retrieved, or all was dropped."""

    corpus: str
    query: str
    searches: int
    empty: int
    nothing_retrieved: int
    last_empty_at: datetime


@dataclass(frozen=True, slots=True)
class QueryFrequency:
    """How often a query was asked."""

    corpus: str
    query: str
    searches: int
    share: float
    first_searched_at: datetime
    last_searched_at: datetime


@dataclass(frozen=True, slots=True)
class CorrelationEdge:
    """A query, a document that it found, and how that was judged."""

    corpus: str
    query: str
    searches: int
    document_id: str
    chunks_retrieved: int
    chunks_returned: int
    mean_relevance: float | None
    not_relevant: int
    partially_relevant: int
    relevant: int
    highly_relevant: int


@dataclass(frozen=True, slots=True)
class QueryCluster:
    """Queries that find much the same documents."""

    corpus: str
    queries: list[str]
    searches: int
    links: int
    mean_jaccard: float
    shared_documents: list[str]


@dataclass(frozen=True, slots=True)
class DocumentImpact:
    """How much of what users see is this document, and whether it helps them."""

    corpus: str
    document_id: str
    exposure: float
    exposure_share: float
    chunks_returned: int
    first_places: int
    queries: int
    judged: int
    helpful: int
    harmful: int


@dataclass(frozen=True, slots=True)
class StageLatency:
    """How long a stage took, in milliseconds."""

    stage: str
    searches: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class ScoreDistribution:
    """What relevance one version of a model gives."""

    model: str
    scored: int
    first_scored_at: datetime
    last_scored_at: datetime
    mean_relevance: float
    p05: float
    p25: float
    p50: float
    p75: float
    p95: float
    mean_logit: float | None


@dataclass(frozen=True, slots=True)
class GradeMix:
    """How the candidates of one day were graded."""

    day: datetime
    corpus: str
    correct: int
    ambiguous: int
    incorrect: int
    ungraded: int
    correct_share: float | None
    incorrect_share: float | None


@dataclass(frozen=True, slots=True)
class Reuse:
    """Where the scores of one day came from."""

    day: datetime
    corpus: str
    searches: int
    forward_passes: int
    cached_scores: int
    shared_scores: int
    reused_scores: int
    cache_rate: float | None
    reuse_rate: float | None


@dataclass(frozen=True, slots=True)
class RerankLift:
    """Where documents judged relevant stood before and after reranking."""

    corpus: str
    model: str
    judged: int
    not_returned: int
    up: int
    same: int
    down: int
    up_share: float | None
    mean_rank_before: float | None
    mean_rank_after: float | None
    mrr_before: float | None
    mrr_after: float | None


# By the name in the path, which is also the statement's in report_sql.
STATED: Mapping[str, type] = {
    "document-stats": DocumentStats,
    "unretrieved-documents": UnretrievedDocument,
    "quality-signals": QualitySignal,
    "low-relevance-queries": LowRelevanceQuery,
    "zero-hit-queries": ZeroHitQuery,
    "query-frequency": QueryFrequency,
    "correlation-graph": CorrelationEdge,
    "query-clusters": QueryCluster,
    "document-impact": DocumentImpact,
    "latency": StageLatency,
    "score-distribution": ScoreDistribution,
    "grade-mix": GradeMix,
    "reuse": Reuse,
    "rerank-lift": RerankLift,
}
# With the lists that TrackerStore reads otherwise.
ROWS: Mapping[str, type] = {
    **STATED,
    "comparisons": ComparisonRecord,
    "judged-scores": JudgedScore,
}
