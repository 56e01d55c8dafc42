"""The native API's answers, as the OpenAPI document describes them; nothing is validated by these
when a request is answered, and tests hold the two together."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from pipeline.context import Citation
from pipeline.documents import PutResult
from pipeline.hits import LegEntry
from tracker.records import HitRecord, Outcome

Grade = Literal["correct", "ambiguous", "incorrect"]
Verdict = Literal["correct", "ambiguous", "incorrect", "no_hits", "off"]
ScoreKind = Literal[
    "cross_encoder",
    "fusion",
    "retrieval",
    "boosted_logit",
    "boosted_relevance",
    "boosted_fusion",
]
TOKEN = "send it back as `next` for the following page; null ends the list"


class CrossEncoderScore(BaseModel):
    logit: float | None = Field(description="null from a model that gives none")
    relevance: float = Field(description="from 0 to 1")


class BoostedScore(BaseModel):
    factor: float = Field(description="the product of the rules' factors")
    value: float = Field(description="what hits are sorted by")


class Scores(BaseModel):
    """Every score by name; null where there is none."""

    retrieval: float | None = Field(description="the best leg's own score")
    fusion: float | None = Field(description="of all legs and variants")
    cross_encoder: CrossEncoderScore | None
    boosted: BoostedScore | None = Field(description="with boost rules")


class SearchHit(BaseModel):
    """A passage found."""

    id: str = Field(description="of the chunk")
    document_id: str = Field(description="what feedback refers to")
    chunk_index: int | None = Field(description="its place in the document, from 0")
    title: str | None
    text: str
    source: str | None
    origin: str | None = Field(description="the fallback it came from: corpus:NAME, http")
    refined: str | None = Field(description='what refinement left; "" is nothing')
    metadata: dict[str, Any] = Field(description="as it was stored")
    rank: int = Field(description="from 1")
    score: float | None = Field(description="the score to trust most")
    score_kind: ScoreKind = Field(description="which one that is")
    scored: bool = Field(description="false: the cross-encoder gave it no score")
    truncated: bool = Field(description="the model saw a part of the text")
    grade: Grade | None = Field(description="null: not graded")
    scores: Scores
    legs: list[LegEntry] = Field(description="where each leg placed it, by variant of the query")


class SearchAnswer(BaseModel):
    """What was found. Every field is always there."""

    retrieval_id: str = Field(description="what feedback and /v1/retrievals refer to")
    query: str
    rewritten_query: str | None = Field(description="what hits were judged by, if not `query`")
    corpus: str
    hits: list[SearchHit] = Field(description="the best first")
    context: str | None = Field(description="the passages, numbered, for a prompt")
    citations: list[Citation] = Field(description="which hit each number in `context` stands for")
    left_out: list[str] = Field(description="ids of hits that the context did not take")
    verdict: Verdict | None = Field(description="of the correction; null: nothing to grade by")
    corrections: int = Field(description="how often it was looked further")
    rerank_applied: bool
    degraded: list[str] = Field(description="the parts that failed")
    forward_passes: int = Field(description="that this request caused")
    reused_scores: int = Field(description="read from a hit by a later stage")
    cached_scores: int = Field(description="from the cache")
    shared_scores: int = Field(description="from another request's pass in flight")
    model: str | None = Field(description="who scored")
    timings_ms: dict[str, float] = Field(description="by stage; some overlap")
    trace: dict[str, Any] | None = Field(description="with `include_trace`: every hit's way")


class FeedbackAnswer(BaseModel):
    """What was stored."""

    retrieval_id: str
    document_id: str
    outcome: Outcome


class RecordedSearch(BaseModel):
    """What a search was asked and how it went."""

    retrieval_id: str
    corpus: str
    query: str
    retrieved_at: datetime
    verdict: Verdict | None
    corrections: int
    rerank_applied: bool
    degraded: list[str]
    forward_passes: int
    reused_scores: int
    cached_scores: int
    shared_scores: int
    model: str | None
    timings_ms: dict[str, float]


class RetrievalPage(BaseModel):
    """Searches, the newest first."""

    items: list[RecordedSearch]
    next: str | None = Field(description=TOKEN)


class GivenFeedback(BaseModel):
    document_id: str
    outcome: Outcome
    given_at: datetime


class RetrievalAnswer(RecordedSearch):
    """A search with every candidate, returned or dropped on the way."""

    hits: list[HitRecord]
    feedback: list[GivenFeedback] = Field(description="the oldest first")


class ReportPage(BaseModel):
    """A report's rows."""

    report: str
    items: list[dict[str, Any]] = Field(description="with the report's own fields")
    next: str | None = Field(description=TOKEN)


class CorpusAnswer(BaseModel):
    """A corpus's size."""

    corpus: str
    documents: int | None = Field(description="null in a list: it could not be counted")
    chunks: int | None


class CorpusPage(BaseModel):
    """Corpora by name."""

    items: list[CorpusAnswer]
    next: str | None = Field(description=TOKEN)


class CorpusDropped(BaseModel):
    corpus: str
    deleted: Literal[True]


class PutAnswer(BaseModel):
    """What became of each document, in the order of the request."""

    corpus: str
    documents: list[PutResult]


class LineAnswer(BaseModel):
    """What became of one line."""

    line: int = Field(description="counted from 1")
    id: str | None = Field(description="null: the line has none that may be repeated")
    status: Literal["stored", "unchanged", "failed", "refused"] = Field(
        description="failed: send it again; refused: mend it"
    )
    chunks: int | None
    error: str | None


class ListedDocument(BaseModel):
    id: str
    title: str | None


class DocumentPage(BaseModel):
    """A corpus's documents by id."""

    items: list[ListedDocument]
    next: str | None = Field(description=TOKEN)


class DocumentAnswer(BaseModel):
    """A document as it is stored."""

    corpus: str
    id: str
    title: str | None
    source: str | None
    metadata: dict[str, Any]
    chunks: list[str] = Field(description="its text, cut")


class DocumentDeleted(BaseModel):
    corpus: str
    id: str
    deleted: Literal[True]


class PurgeAnswer(BaseModel):
    """How many records were deleted or, dry, would be."""

    before: datetime
    dry_run: bool
    deleted: dict[str, int] = Field(description="retrievals, hits, feedback, comparisons")


class CompactAnswer(BaseModel):
    """The size of the tracker's file."""

    bytes_before: int
    bytes_after: int


class StatusAnswer(BaseModel):
    """The application, over all its replicas."""

    version: str
    model: str | None = Field(description="who scores")
    providers: dict[str, list[str]] = Field(description="ONNX Runtime's, really in use, by part")
    missing: list[str] = Field(description="parts that did not answer")
    counters: dict[str, int | float | None] = Field(description="summed over replicas")
    tracker: dict[str, Any]
    retention: dict[str, Any] | None
    deployments: dict[str, list[dict[str, Any]]] = Field(description="what each replica says")


class AliveAnswer(BaseModel):
    status: Literal["alive"]


class ReadyAnswer(BaseModel):
    """Whether searches can be answered, and which parts are down."""

    status: Literal["ready", "starting"]
    degraded: list[str] = Field(description="parts that are down")
