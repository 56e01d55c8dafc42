"""The tracker's store: every retrieval, its candidates and their feedback, in one DuckDB file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.errors import InvalidInput, NotFound, Unavailable
from tracker import purging, reads, reports, writes
from tracker.compaction import Compaction
from tracker.database import Database
from tracker.records import (
    ALL_RECORDS,
    Compacted,
    ComparisonRecord,
    Counts,
    Damage,
    Feedback,
    JudgedScore,
    Opened,
    PurgeCounts,
    RetentionRun,
    RetentionStatus,
    RetrievalRecord,
    Scope,
    TrackedRetrieval,
    Window,
    require_aware,
)

FIRST_CHUNK = 500  # retrievals in a purge's first transaction: they may have 1,000 hits each


class TrackerStore:
    """One tracker file, owned by one process. Synchronous.

    All writes, `checkpoint` and `close` come from ONE thread: DuckDB rejects concurrent writers
    instead of queueing them. Reads may come from any thread at any time; each has a cursor of
    its own and sees one consistent state. A write is durable once it returns.

    Whatever goes wrong with the file raises Unavailable; after a fatal error the next call opens
    the file again. A lookup of what is not there raises NotFound, a naive time InvalidInput.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._compaction: Compaction | None = None

    @classmethod
    def open(cls, path: str | Path, *, memory_limit: str, threads: int) -> TrackerStore:
        """Open the file, or begin one with its folder.

        `memory_limit` is DuckDB's ("512MB"), whose own default is most of the host. Unavailable
        if another process holds the file (the message names its PID), if permission or space is
        lacking, or if a newer version wrote it: the file is not touched then. Only a checksum or
        corruption error sets files aside, beside the path with the time appended to their names:
        first the write-ahead log, then, if that is not enough, the database too.
        """
        store = cls(Database(Path(path), memory_limit=memory_limit, threads=threads))
        Compaction(store._database).abandon()  # what a process that died left of one
        return store

    @property
    def opened(self) -> Opened:
        """How the file was found; grows when a reopening sets files aside."""
        return self._database.opened

    # Writes, from one thread.

    def record(self, batch: Sequence[RetrievalRecord]) -> int:
        """Store retrievals in one transaction; return how many were new.

        A retrieval whose id is stored, or came earlier in the batch, is skipped with its hits.
        """
        with self._database.transaction(len(batch)) as cursor:
            new = writes.insert_records(cursor, batch)
        if self._compaction is not None:
            self._compaction.late += new
        return len(new)

    def feedback(self, tenant: str, feedback: Feedback) -> None:
        """Store a judgement; an earlier one of the same retrieval and document is replaced.

        NotFound if the tenant has no such retrieval, or if the document is none of its
        recorded candidates, returned or not.
        """
        (missing,) = self.feedback_batch([(tenant, feedback)])
        if missing is not None:
            raise missing

    def feedback_batch(self, batch: Sequence[tuple[str, Feedback]]) -> list[NotFound | None]:
        """Store judgements, each with its tenant, in one transaction, as `feedback` would one by
        one; return, in order, None for one that is stored, else what it would have raised."""
        with self._database.transaction(len(batch)) as cursor:
            return writes.replace_feedback(cursor, batch)

    def record_comparisons(self, batch: Sequence[ComparisonRecord]) -> list[str]:
        """Store comparisons in one transaction; return the ids of retrievals that their tenant
        does not have: not yet, as a comparison may overtake its retrieval, or not any more.

        Theirs are left out, and the same batch may be sent again: a comparison of a retrieval
        and a model that is stored, or came earlier in the batch, is skipped. Corpus and time are
        kept as the retrieval's, so that they go when it is purged.
        """
        with self._database.transaction(len(batch)) as cursor:
            return writes.insert_comparisons(cursor, batch)

    def record_documents(
        self,
        tenant: str,
        corpus: str,
        documents: Sequence[tuple[str, str | None]],
        at: datetime,
    ) -> None:
        """Store that documents, as (id, title), were written `at`; a deleted one is back."""
        require_aware("at", at)
        with self._database.transaction(len(documents)) as cursor:
            writes.replace_documents(cursor, tenant, corpus, documents, at)

    def delete_documents(
        self, tenant: str, corpus: str, document_ids: Sequence[str], at: datetime
    ) -> int:
        """Store that documents were deleted `at`; return how many had been there till then."""
        require_aware("at", at)
        with self._database.transaction() as cursor:
            return writes.mark_deleted(cursor, tenant, corpus, document_ids, at)

    def delete_corpus(self, tenant: str, corpus: str, at: datetime) -> int:
        """Store that a corpus was dropped `at`; return how many documents it had till then."""
        require_aware("at", at)
        with self._database.transaction() as cursor:
            return writes.mark_corpus_deleted(cursor, tenant, corpus, at)

    def purge_step(
        self, cutoff: datetime, chunk: int = FIRST_CHUNK, scope: Scope = ALL_RECORDS
    ) -> PurgeCounts:
        """Delete up to `chunk` retrievals of the scope from before the cutoff, oldest first, with
        their children, in one transaction.

        A purge is steps until one deletes no retrievals, other writes going between, and then a
        `checkpoint`. Stopping earlier leaves no orphans, and a later purge completes it.
        Unavailable while the file is being compacted.
        """
        require_aware("cutoff", cutoff)
        if chunk < 1:
            raise InvalidInput("chunk must be at least 1", param="chunk")
        if self._compaction is not None:
            raise Unavailable("the tracker's file is being compacted")
        with self._database.transaction() as cursor:
            return purging.purge_chunk(cursor, cutoff, chunk, scope)

    def record_run(self, run: RetentionRun) -> None:
        """Store one run of the retention."""
        with self._database.transaction(1) as cursor:
            writes.insert_run(cursor, run)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database file and reclaim purged space."""
        self._database.checkpoint()

    # Writing the file anew: `begin`, `copy` and `finish`, or `abandon`.

    def begin_compaction(self) -> None:
        """Begin a new file beside this one, in the writer's thread; nothing can be purged till it
        is finished or abandoned."""
        self._compaction = Compaction(self._database)
        self._compaction.begin()

    def copy_for_compaction(self) -> None:
        """Copy what is there to the new file, from any thread: the long part, beside which reads
        and writes go on."""
        self._compacting().copy()

    def finish_compaction(self) -> Compacted:
        """Copy what came meanwhile and put the new file in place of the old, in the writer's
        thread. Unavailable, and all stays as it was, while a read is under way."""
        compacted = self._compacting().finish()
        self._compaction = None
        return compacted

    def abandon_compaction(self) -> None:
        """Stay with the old file, in the writer's thread; harmless where there is nothing to
        abandon."""
        if self._compaction is not None:
            compaction, self._compaction = self._compaction, None
            compaction.abandon()

    def _compacting(self) -> Compaction:
        if self._compaction is None:
            raise Unavailable("the tracker's file is not being compacted")
        return self._compaction

    def close(self) -> None:
        """Close the file and release it; later calls raise Unavailable.

        So does this one while a read is under way: close again when that has ended."""
        self._database.close()

    # Reads, from any thread.

    def find_records(
        self, window: Window, limit: int = 100, offset: int = 0
    ) -> list[RetrievalRecord]:
        """Return the retrievals made in the window with their hits, newest first."""
        with self._database.transaction() as cursor:
            return reads.select_records(cursor, window, limit, offset)

    def find_retrievals(
        self, window: Window, limit: int = 100, after: tuple[datetime, str] | None = None
    ) -> list[RetrievalRecord]:
        """Return the retrievals made in the window, newest first, WITHOUT their hits.

        `after` is the time and id of the last one of the page before: what is recorded meanwhile
        shifts nothing.
        """
        with self._database.transaction() as cursor:
            return reads.select_retrievals(cursor, window, limit, after)

    def find_feedback(self, window: Window, limit: int = 100, offset: int = 0) -> list[Feedback]:
        """Return the feedback given in the window, newest first."""
        with self._database.transaction() as cursor:
            return reads.select_feedback(cursor, window, limit, offset)

    def find_comparisons(
        self, window: Window, limit: int = 100, offset: int = 0
    ) -> list[ComparisonRecord]:
        """Return the comparisons of retrievals made in the window, newest first."""
        with self._database.transaction() as cursor:
            return reads.select_comparisons(cursor, window, limit, offset)

    def find_judged_scores(
        self, window: Window, limit: int = 100, offset: int = 0
    ) -> list[JudgedScore]:
        """Return what a model had said of documents that got feedback in the window, newest
        first; a document of which no chunk was scored in that retrieval is left out."""
        with self._database.transaction() as cursor:
            return reads.select_judged_scores(cursor, window, limit, offset)

    def report(
        self, name: str, window: Window, limit: int = 100, offset: int = 0, seconds: float = 30.0
    ) -> list[Any]:
        """Return rows of the report `name`, of its class in ROWS, in the report's own order.

        DeadlineExceeded if it takes longer than `seconds`. It holds up no write.
        """
        with self._database.session() as cursor, reports.time_limit(cursor, seconds):
            return reports.select_report(cursor, name, window, limit, offset)

    def find_retrieved_document_ids(self, window: Window) -> list[str]:
        """Return, sorted, the documents that were a candidate, returned or not, in the window."""
        with self._database.transaction() as cursor:
            return reads.select_document_ids(cursor, window)

    def get_record(self, tenant: str, retrieval_id: str) -> TrackedRetrieval:
        """Return a retrieval with its hits and feedback; NotFound if the tenant has none such."""
        with self._database.transaction() as cursor:
            return reads.select_record(cursor, tenant, retrieval_id)

    def count_older(self, cutoff: datetime, scope: Scope = ALL_RECORDS) -> PurgeCounts:
        """Count what a purge with the same cutoff and scope would delete."""
        require_aware("cutoff", cutoff)
        with self._database.transaction() as cursor:
            return purging.count_before(cursor, cutoff, scope)

    def retention_status(self) -> RetentionStatus:
        """Return when retention last ran and succeeded, and what came of the last run."""
        with self._database.transaction() as cursor:
            return reads.select_status(cursor)

    def damages(self) -> list[Damage]:
        """Return all damage that was found in this file's life, oldest first."""
        with self._database.transaction() as cursor:
            return reads.select_damages(cursor)

    def counts(self) -> Counts:
        """Count the stored rows."""
        with self._database.transaction() as cursor:
            return reads.count_rows(cursor)

    def orphans(self) -> int:
        """Count children without a parent; reads every child's id, so not for a hot path."""
        with self._database.transaction() as cursor:
            return reads.count_orphans(cursor)
