"""What the tracker keeps and what it answers. Every time is aware; a naive one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from pipeline.errors import InvalidInput

Outcome = Literal["not_relevant", "partially_relevant", "relevant", "highly_relevant"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class HitRecord:
    """One candidate of a retrieval, whether it was returned or dropped on the way.

    `rank` is the final 1-based rank, None if the hit was not returned; `retrieval_rank` the best
    rank that any leg gave it. A score that was never computed is None. `origin` names the fallback
    that a hit came from, None for the corpus itself.
    """

    hit_id: str
    document_id: str
    chunk_index: int | None
    rank: int | None
    retrieval_rank: int
    retrieval_score: float | None
    fusion_score: float | None
    logit: float | None
    relevance: float | None
    grade: str | None
    scored: bool
    returned: bool
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class RetrievalRecord:
    """One search with all its candidates; `timings_ms` holds stage times in milliseconds."""

    retrieval_id: str
    tenant: str
    corpus: str
    query: str
    retrieved_at: datetime
    verdict: str | None
    corrections: int
    rerank_applied: bool
    degraded: tuple[str, ...]
    forward_passes: int
    reused_scores: int
    cached_scores: int
    shared_scores: int
    model: str | None
    timings_ms: Mapping[str, float]
    hits: tuple[HitRecord, ...]

    def __post_init__(self) -> None:
        require_aware("retrieved_at", self.retrieved_at)


@dataclass(frozen=True, slots=True)
class Feedback:
    """A judgement of one document in one retrieval."""

    retrieval_id: str
    document_id: str
    outcome: Outcome
    given_at: datetime

    def __post_init__(self) -> None:
        require_aware("given_at", self.given_at)
        if self.outcome not in OUTCOMES:
            raise InvalidInput(f"outcome must be one of {', '.join(OUTCOMES)}", param="outcome")


@dataclass(frozen=True, slots=True)
class ComparisonRecord:
    """How another model ranked what was served: the scores of the pairs that both scored.

    `kendall` is tau-b, `overlap` the common part of the first `k`; each is None where it is not
    defined. `latency_ms` is the other model's, None if it gave no answer; `error` then says why.
    """

    retrieval_id: str
    tenant: str
    corpus: str
    retrieved_at: datetime
    served_model: str
    model: str
    pairs: int
    kendall: float | None
    overlap: float | None
    k: int
    latency_ms: float | None
    error: str | None

    def __post_init__(self) -> None:
        require_aware("retrieved_at", self.retrieved_at)


@dataclass(frozen=True, slots=True)
class JudgedScore:
    """A judgement beside what the model had said: the best relevance of the document's hits in
    that retrieval, and the model that gave it."""

    retrieval_id: str
    document_id: str
    relevance: float
    model: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TrackedRetrieval:
    """A stored retrieval with the feedback that it was given, oldest first."""

    record: RetrievalRecord
    feedback: tuple[Feedback, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A tenant's records from `since` up to, not including, `until`; None leaves a bound open
    and takes in every corpus."""

    tenant: str
    corpus: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since is not None:
            require_aware("since", self.since)
        if self.until is not None:
            require_aware("until", self.until)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose records a purge takes: a tenant's, a corpus's, those of a corpus of a tenant, or all;
    `but` names pairs of (tenant, corpus) that are spared, None in them meaning any."""

    tenant: str | None = None
    corpus: str | None = None
    but: tuple[tuple[str | None, str | None], ...] = ()


ALL_RECORDS = Scope()


@dataclass(frozen=True, slots=True)
class PurgeCounts:
    """How many rows a purge deleted, or would delete."""

    retrievals: int = 0
    hits: int = 0
    feedback: int = 0
    comparisons: int = 0

    def __add__(self, other: PurgeCounts) -> PurgeCounts:
        return PurgeCounts(
            self.retrievals + other.retrievals,
            self.hits + other.hits,
            self.feedback + other.feedback,
            self.comparisons + other.comparisons,
        )


@dataclass(frozen=True, slots=True)
class RetentionRun:
    """One run of a purge: what it was to delete before, and what came of it.

    `deleted` counts retrievals; it is 0 for a failed run, whose finished chunks stay deleted
    all the same. `trigger` says what started it, `tenant` and `corpus` whose policy it followed
    (None: any); the runs of one round, one a policy, began at the same moment.
    """

    started_at: datetime
    finished_at: datetime
    cutoff: datetime
    deleted: int
    error: str | None
    trigger: str
    tenant: str | None = None
    corpus: str | None = None

    def __post_init__(self) -> None:
        require_aware("started_at", self.started_at)
        require_aware("finished_at", self.finished_at)
        require_aware("cutoff", self.cutoff)


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """When retention last ran and last succeeded (the ends of those rounds), and the last round's
    error (None if it succeeded) and count of deleted retrievals (None before the first)."""

    last_run: datetime | None
    last_success: datetime | None
    last_error: str | None
    deleted: int | None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows the tracker holds."""

    retrievals: int
    hits: int
    feedback: int
    documents: int
    comparisons: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """How the tracker's file was found: whether a new one was begun, and the names of damaged
    files that were set aside, beside it, since the store was opened."""

    new_file: bool
    set_aside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Damage:
    """Files that were set aside at one opening, and how many records may be lost with them, at
    most; None if that is not known, as for the database itself, with which all is gone."""

    found_at: datetime
    set_aside: tuple[str, ...]
    possibly_lost: int | None


@dataclass(frozen=True, slots=True)
class Compacted:
    """The size of the tracker's file before and after it was written anew, in bytes."""

    bytes_before: int
    bytes_after: int


def require_aware(field: str, value: datetime) -> None:
    """Refuse a naive time with InvalidInput: what moment it means depends on who reads it."""
    if value.utcoffset() is None:
        raise InvalidInput(f"{field} must carry a time zone", param=field)
