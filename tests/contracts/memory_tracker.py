"""A tracker in plain Python, as the oracle of the one on DuckDB: lists, and no file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from pipeline.errors import InvalidInput, NotFound
from tracker.records import (
    ALL_RECORDS,
    ComparisonRecord,
    Counts,
    Feedback,
    JudgedScore,
    PurgeCounts,
    RetentionRun,
    RetentionStatus,
    RetrievalRecord,
    Scope,
    TrackedRetrieval,
    Window,
    require_aware,
)
from tracker.store import FIRST_CHUNK, TrackerStore

T = TypeVar("T")


@dataclass
class MemoryTracker:
    """Does what TrackerStore says of its methods."""

    retrievals: dict[str, RetrievalRecord] = field(default_factory=dict)
    judgements: dict[tuple[str, str], Feedback] = field(default_factory=dict)
    comparisons: dict[tuple[str, str], ComparisonRecord] = field(default_factory=dict)
    documents: dict[tuple[str, str, str], bool] = field(default_factory=dict)  # is it there
    runs: list[RetentionRun] = field(default_factory=list)

    def record(self, batch: Sequence[RetrievalRecord]) -> int:
        before = len(self.retrievals)
        for record in batch:
            self.retrievals.setdefault(record.retrieval_id, record)
        return len(self.retrievals) - before

    def feedback(self, tenant: str, feedback: Feedback) -> None:
        record = self.get_record(tenant, feedback.retrieval_id).record
        if feedback.document_id not in {hit.document_id for hit in record.hits}:
            raise NotFound("the retrieval has no such document", param="document_id")
        self.judgements[feedback.retrieval_id, feedback.document_id] = feedback

    def feedback_batch(self, batch: Sequence[tuple[str, Feedback]]) -> list[NotFound | None]:
        return [self._judge(tenant, feedback) for tenant, feedback in batch]

    def _judge(self, tenant: str, feedback: Feedback) -> NotFound | None:
        try:
            self.feedback(tenant, feedback)
        except NotFound as missing:
            return missing
        return None

    def record_comparisons(self, batch: Sequence[ComparisonRecord]) -> list[str]:
        missing: dict[str, None] = {}
        for one in batch:
            parent = self.retrievals.get(one.retrieval_id)
            if parent is None or parent.tenant != one.tenant:
                missing[one.retrieval_id] = None
                continue
            known = replace(one, corpus=parent.corpus, retrieved_at=parent.retrieved_at)
            self.comparisons.setdefault((one.retrieval_id, one.model), known)
        return list(missing)

    def record_documents(
        self,
        tenant: str,
        corpus: str,
        documents: Sequence[tuple[str, str | None]],
        at: datetime,
    ) -> None:
        require_aware("at", at)
        self.documents.update({(tenant, corpus, name): True for name, _ in documents})

    def delete_documents(
        self, tenant: str, corpus: str, document_ids: Sequence[str], at: datetime
    ) -> int:
        require_aware("at", at)
        keys = {(tenant, corpus, name) for name in document_ids}
        there = [key for key in keys if self.documents.get(key)]
        self.documents.update(dict.fromkeys(there, False))
        return len(there)

    def delete_corpus(self, tenant: str, corpus: str, at: datetime) -> int:
        names = [name for of, named, name in self.documents if (of, named) == (tenant, corpus)]
        return self.delete_documents(tenant, corpus, names, at)

    def purge_step(
        self, cutoff: datetime, chunk: int = FIRST_CHUNK, scope: Scope = ALL_RECORDS
    ) -> PurgeCounts:
        require_aware("cutoff", cutoff)
        if chunk < 1:
            raise InvalidInput("chunk must be at least 1", param="chunk")
        oldest = sorted(self._older(cutoff, scope), key=lambda record: record.retrieved_at)
        gone = oldest[:chunk]
        counts = self._count(gone)
        ids = {record.retrieval_id for record in gone}
        self.retrievals = {key: one for key, one in self.retrievals.items() if key not in ids}
        self.judgements = {key: one for key, one in self.judgements.items() if key[0] not in ids}
        self.comparisons = {key: one for key, one in self.comparisons.items() if key[0] not in ids}
        return counts

    def count_older(self, cutoff: datetime, scope: Scope = ALL_RECORDS) -> PurgeCounts:
        require_aware("cutoff", cutoff)
        return self._count(self._older(cutoff, scope))

    def _older(self, cutoff: datetime, scope: Scope) -> list[RetrievalRecord]:
        return [
            record
            for record in self.retrievals.values()
            if record.retrieved_at < cutoff
            and names((scope.tenant, scope.corpus), record)
            and not any(names(pair, record) for pair in scope.but)
        ]

    def _count(self, records: Sequence[RetrievalRecord]) -> PurgeCounts:
        ids = {record.retrieval_id for record in records}
        return PurgeCounts(
            len(ids),
            sum(len(record.hits) for record in records),
            sum(retrieval_id in ids for retrieval_id, _ in self.judgements),
            sum(retrieval_id in ids for retrieval_id, _ in self.comparisons),
        )

    def record_run(self, run: RetentionRun) -> None:
        self.runs.append(run)

    def checkpoint(self) -> None:
        pass

    def close(self) -> None:
        pass

    def find_records(
        self, window: Window, limit: int = 100, offset: int = 0
    ) -> list[RetrievalRecord]:
        found = [one for one in self.retrievals.values() if is_in(window, one, one.retrieved_at)]
        found.sort(key=lambda one: (one.retrieved_at, one.retrieval_id), reverse=True)
        return found[offset : offset + limit]

    def find_retrievals(
        self, window: Window, limit: int = 100, after: tuple[datetime, str] | None = None
    ) -> list[RetrievalRecord]:
        found = self.find_records(window, len(self.retrievals))
        rest = [
            one for one in found if after is None or (one.retrieved_at, one.retrieval_id) < after
        ]
        return [replace(one, hits=()) for one in rest[:limit]]

    def find_feedback(self, window: Window, limit: int = 100, offset: int = 0) -> list[Feedback]:
        found = [
            one
            for one in self.judgements.values()
            if is_in(window, self.retrievals[one.retrieval_id], one.given_at)
        ]
        newest = newest_first(found, lambda one: (one.given_at, one.retrieval_id, one.document_id))
        return newest[offset : offset + limit]

    def find_comparisons(
        self, window: Window, limit: int = 100, offset: int = 0
    ) -> list[ComparisonRecord]:
        found = [
            one
            for one in self.comparisons.values()
            if is_in(window, self.retrievals[one.retrieval_id], one.retrieved_at)
        ]
        newest = newest_first(found, lambda one: (one.retrieved_at, one.retrieval_id, one.model))
        return newest[offset : offset + limit]

    def find_judged_scores(
        self, window: Window, limit: int = 100, offset: int = 0
    ) -> list[JudgedScore]:
        found: list[JudgedScore] = []
        for one in self.find_feedback(window, len(self.judgements)):
            record = self.retrievals[one.retrieval_id]
            relevances = [
                hit.relevance
                for hit in record.hits
                if hit.document_id == one.document_id
                and hit.scored
                and hit.relevance is not None
                and hit.origin is None
            ]
            if relevances and record.model is not None:
                judged = (max(relevances), record.model, one.outcome)
                found.append(JudgedScore(one.retrieval_id, one.document_id, *judged))
        return found[offset : offset + limit]

    def find_retrieved_document_ids(self, window: Window) -> list[str]:
        found = self.find_records(window, len(self.retrievals))
        hits = [hit for record in found for hit in record.hits if hit.origin is None]
        return sorted({hit.document_id for hit in hits})

    def get_record(self, tenant: str, retrieval_id: str) -> TrackedRetrieval:
        record = self.retrievals.get(retrieval_id)
        if record is None or record.tenant != tenant:
            raise NotFound("no such retrieval", param="retrieval_id")
        feedback = [one for key, one in self.judgements.items() if key[0] == retrieval_id]
        feedback.sort(key=lambda one: (one.given_at, one.document_id))
        return TrackedRetrieval(record, tuple(feedback))

    def retention_status(self) -> RetentionStatus:
        if not self.runs:
            return RetentionStatus(None, None, None, None)
        rounds = {run.started_at: self._round(run.started_at) for run in self.runs}
        last = rounds[max(rounds)]
        good = [at for at, runs in rounds.items() if all(run.error is None for run in runs)]
        return RetentionStatus(
            last_run=max(run.finished_at for run in last),
            last_success=max(run.finished_at for run in rounds[max(good)]) if good else None,
            last_error=min((run.error for run in last if run.error is not None), default=None),
            deleted=sum(run.deleted for run in last),
        )

    def _round(self, started_at: datetime) -> list[RetentionRun]:
        return [run for run in self.runs if run.started_at == started_at]

    def counts(self) -> Counts:
        return Counts(
            retrievals=len(self.retrievals),
            hits=sum(len(record.hits) for record in self.retrievals.values()),
            feedback=len(self.judgements),
            documents=len(self.documents),
            comparisons=len(self.comparisons),
        )

    def orphans(self) -> int:
        return sum(
            retrieval_id not in self.retrievals
            for retrieval_id, _ in (*self.judgements, *self.comparisons)
        )


Tracker = TrackerStore | MemoryTracker


def names(pair: tuple[str | None, str | None], record: RetrievalRecord) -> bool:
    tenant, corpus = pair
    return tenant in (None, record.tenant) and corpus in (None, record.corpus)


def is_in(window: Window, record: RetrievalRecord, time: datetime) -> bool:
    return (
        record.tenant == window.tenant
        and window.corpus in (None, record.corpus)
        and (window.since is None or time >= window.since)
        and (window.until is None or time < window.until)
    )


def newest_first(found: Sequence[T], key: Callable[[T], tuple[datetime, str, str]]) -> list[T]:
    """Newest first, then by id downwards, then by name upwards."""
    by_name = sorted(found, key=lambda one: key(one)[2])
    return sorted(by_name, key=lambda one: key(one)[:2], reverse=True)
