"""The Recorder deployment: the one owner of the tracker's file, and of one writer thread."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from deployments.folders import data_folder
from deployments.group_commit import GroupCommit
from deployments.logs import join_serve_log
from deployments.outbox import rows_of
from deployments.reports import NAMES, read_report
from deployments.tracker_file import TrackerFile
from deployments.tracker_options import TrackerArgs
from deployments.upkeep import Upkeep
from pipeline.documents import CorpusKey
from pipeline.errors import InvalidInput, NotFound, Unavailable
from tracker.ids import created_at
from tracker.records import (
    ALL_RECORDS,
    Compacted,
    ComparisonRecord,
    Damage,
    Feedback,
    Outcome,
    PurgeCounts,
    RetentionRun,
    RetrievalRecord,
    Scope,
    TrackedRetrieval,
    Window,
)
from tracker.report_rows import ROWS
from tracker.store import TrackerStore

T = TypeVar("T")

# A group of records is committed at least this often, and as soon as it holds so many rows, records
# and hits: an outbox's whole batch fills one, and feedback waits 50 ms for it.
GROUP_WAIT_S = 0.1
GROUP_ROWS = 4_000
GROUP_FEEDBACK = 50
FLUSH_WAIT_S = 2.0
# A client may overtake its own search's record on the way here; one this young is waited for.
YOUNG = timedelta(seconds=5)
YOUNG_WAIT_S = 2.0


class Recorder:
    """Writes in groups, answers feedback only after its commit, purges between writes."""

    def __init__(self, args: TrackerArgs) -> None:
        join_serve_log()
        self.args = args
        self.path = Path(args.path) if args.path else data_folder() / "tracker.duckdb"
        self.file = TrackerFile(self._open_store)
        self.records = GroupCommit(
            self._store_records, enough=GROUP_ROWS, weigh=rows_of, wait_s=GROUP_WAIT_S
        )
        self.judgements = GroupCommit(self._store_feedback, enough=GROUP_FEEDBACK)
        self.upkeep = Upkeep(self.file.write, self.file.aside, self.file.quiet)
        self.recorded = self.rejected = 0
        # Serve awaits this at shutdown; Python's collector, which looks at the class, does not.
        self.__del__ = self.close

    def _open_store(self) -> TrackerStore:
        memory_limit, threads = self.args.memory_limit, self.args.threads
        return TrackerStore.open(self.path, memory_limit=memory_limit, threads=threads)

    async def record(self, records: Sequence[RetrievalRecord]) -> list[str]:
        """Store records in the next group; returns after its commit. Repeats are stored once.

        Returns the ids of those that can never be stored. Raises Unavailable while the tracker
        is down: then they may be sent again.
        """
        answers = await self.records.put(records)
        rejected = [
            record.retrieval_id
            for record, answer in zip(records, answers, strict=True)
            if isinstance(answer, InvalidInput)
        ]
        self.rejected += len(rejected)
        return rejected

    async def _store_records(self, records: Sequence[RetrievalRecord]) -> list[None]:
        self.recorded += await self.file.write(lambda store: store.record(records))
        return [None] * len(records)

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None:
        """Store a judgement durably. Raises NotFound for an unknown retrieval or document."""
        feedback = Feedback(retrieval_id, document_id, outcome, utc_now())
        await self._once_recorded(retrieval_id, lambda: self._judge(tenant, feedback))

    async def _judge(self, tenant: str, feedback: Feedback) -> None:
        (answer,) = await self.judgements.put([(tenant, feedback)])
        if answer is not None:
            raise answer

    async def _store_feedback(self, batch: Sequence[tuple[str, Feedback]]) -> list[NotFound | None]:
        return await self.file.write(lambda store: store.feedback_batch(batch))

    async def retrieval(self, tenant: str, retrieval_id: str) -> TrackedRetrieval:
        """Return a retrieval with its hits and feedback. Raises NotFound for an unknown one."""
        work = partial(TrackerStore.get_record, tenant=tenant, retrieval_id=retrieval_id)
        return await self._once_recorded(retrieval_id, lambda: self.file.read(work))

    async def retrievals(
        self, window: Window, limit: int, after: tuple[datetime, str] | None
    ) -> list[RetrievalRecord]:
        """Return retrievals without their hits, newest first, from behind `after` on."""
        return await self.file.read(lambda store: store.find_retrievals(window, limit, after))

    async def _once_recorded(self, retrieval_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do what needs a retrieval; one that is young may still be on its way here."""
        give_up = time.monotonic() + YOUNG_WAIT_S
        while True:
            try:
                return await work()
            except NotFound:
                born = created_at(retrieval_id)
                young = born is not None and abs(utc_now() - born) < YOUNG
                if not young or time.monotonic() > give_up:
                    raise
            await asyncio.sleep(0.05)

    async def purge(
        self, before: datetime, dry_run: bool = False, scope: Scope = ALL_RECORDS
    ) -> PurgeCounts:
        """Delete a scope's records older than `before`, in steps between which other writes go
        on."""
        if before > utc_now():
            raise InvalidInput("before must not lie in the future", "before")
        if dry_run:
            return await self.file.read(lambda store: store.count_older(before, scope))
        return await self.upkeep.purge(before, scope)

    async def compact(self) -> Compacted:
        """Write the file anew, so that it gives back the space of what was deleted.

        Reads and writes go on but for a moment at the end, in which they wait.
        """
        return await self.upkeep.compact()

    async def record_comparisons(self, comparisons: Sequence[ComparisonRecord]) -> list[str]:
        """Store comparisons; return the ids of retrievals that are not known, or not yet."""
        return await self.file.write(lambda store: store.record_comparisons(comparisons))

    async def report(
        self, name: str, window: Window, limit: int, offset: int, remaining_ms: float
    ) -> list[dict[str, Any]]:
        """Return a report's rows. Raises NotFound for a name that is none."""
        if name not in ROWS:
            raise NotFound(f"no such report; there are {NAMES}", "name")
        deadline = time.monotonic() + remaining_ms / 1e3
        return await self.file.report(
            lambda store: read_report(store, name, window, limit, offset, deadline)
        )

    async def record_run(self, run: RetentionRun) -> None:
        await self.file.write(lambda store: store.record_run(run))

    async def record_documents(
        self, corpus: CorpusKey, documents: Sequence[tuple[str, str | None]], at: datetime
    ) -> None:
        await self.file.write(
            lambda store: store.record_documents(corpus.tenant, corpus.name, documents, at)
        )

    async def delete_documents(
        self, corpus: CorpusKey, document_ids: Sequence[str], at: datetime
    ) -> None:
        await self.file.write(
            lambda store: store.delete_documents(corpus.tenant, corpus.name, document_ids, at)
        )

    async def delete_corpus(self, corpus: CorpusKey, at: datetime) -> None:
        await self.file.write(lambda store: store.delete_corpus(corpus.tenant, corpus.name, at))

    async def ping(self) -> bool:
        return await self.file.read(lambda store: True)

    async def status(self) -> dict[str, Any]:
        """Counts and retention where there is a store; `error` says why there is none."""
        return {
            "pid": os.getpid(),
            "path": str(self.path),
            "queue": len(self.records),
            "recorded": self.recorded,
            "rejected": self.rejected,
            "last_error": self.records.last_error
            or self.judgements.last_error
            or self.file.last_error,
            **await self._contents(),
        }

    async def _contents(self) -> dict[str, Any]:
        if self.file.store is None:
            return {"error": self.file.last_error or "the file is being opened", "retention": None}
        try:
            opened = await self.file.read(lambda store: store.opened)
            damages = await self.file.read(TrackerStore.damages)
            counts = await self.file.read(TrackerStore.counts)
            retention = await self.file.read(TrackerStore.retention_status)
        except Unavailable as error:
            return {"error": error.message, "retention": None}
        return {
            "error": None,
            "new_file": opened.new_file,
            "set_aside": [name for damage in damages for name in damage.set_aside],
            "possibly_lost": lost_with(damages),
            "file_bytes": self.path.stat().st_size,
            **dataclasses.asdict(counts),
            "retention": dataclasses.asdict(retention),
        }

    async def close(self) -> None:
        """Flush what waits, so that a graceful shutdown or a redeploy loses nothing."""
        # What arrived while the file was being opened is to be flushed too.
        await asyncio.wait({self.file.opener}, timeout=FLUSH_WAIT_S)
        self.file.tried.set()
        await self.records.close()
        await self.judgements.close()
        await self.file.close()


def lost_with(damages: Sequence[Damage]) -> int | None:
    """How many records may be lost, at most; None where nobody knows."""
    counts = [damage.possibly_lost for damage in damages]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def utc_now() -> datetime:
    return datetime.now(timezone.utc)
