"""The Recorder deployment: the one owner of the tracker's file, and of one writer thread."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from deployments.config import TrackerArgs
from deployments.folders import data_folder
from deployments.group_commit import GroupCommit
from deployments.logs import join_serve_log
from deployments.reports import NAMES, read_report
from pipeline.documents import CorpusKey
from pipeline.errors import InvalidInput, NotFound, Unavailable
from tracker.errors import Locked
from tracker.ids import created_at
from tracker.records import (
    ComparisonRecord,
    Feedback,
    Outcome,
    PurgeCounts,
    RetentionRun,
    RetrievalRecord,
    TrackedRetrieval,
    Window,
)
from tracker.report_rows import ROWS
from tracker.store import TrackerStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A lock is not yet a failure: the file's last owner may be on its way out.
LOCK_WAIT_S = 60.0
LOCK_RETRY_S = 1.0
OPEN_RETRY_S = 30.0
CLOSE_WAIT_S = 2.0
# A client may overtake its own search's record on the way here; one this young is waited for.
YOUNG = timedelta(seconds=5)
YOUNG_WAIT_S = 2.0


class Recorder:
    """Writes in groups, answers feedback only after its commit, purges between writes."""

    def __init__(self, args: TrackerArgs) -> None:
        join_serve_log()
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="tracker-writer")
        self.readers = ThreadPoolExecutor(2, thread_name_prefix="tracker-reader")
        # One of its own, so that nothing else that is read waits for a report.
        self.reporter = ThreadPoolExecutor(1, thread_name_prefix="tracker-reporter")
        self.args = args
        self.path = Path(args.path) if args.path else data_folder() / "tracker.duckdb"
        self.store: TrackerStore | None = None
        self.tried = asyncio.Event()
        self.last_error: str | None = None
        self.commits = GroupCommit(self._write)
        self.opener = asyncio.get_running_loop().create_task(self._open())
        # Serve awaits this at shutdown; Python's collector, which looks at the class, does not.
        self.__del__ = self.close

    async def _open(self) -> None:
        """Open the file, and go on trying: a tracker that is down must not keep searches down.

        Its last owner may hold it for a moment; whatever else is wrong takes a person.
        """
        loop = asyncio.get_running_loop()
        give_up = time.monotonic() + LOCK_WAIT_S
        while self.store is None:
            try:
                self.store = await loop.run_in_executor(self.writer, open_tracker, self)
            except Exception as error:  # a process boundary: the file system and DuckDB
                logger.error("the tracker's file does not open: %s", error)
                self.last_error = str(error)
                locked = isinstance(error, Locked)
                if not locked or time.monotonic() > give_up:
                    self.tried.set()  # calls fail from now on, instead of waiting
                await asyncio.sleep(LOCK_RETRY_S if locked else OPEN_RETRY_S)
        self.tried.set()

    async def _write(self, work: Callable[[TrackerStore], T]) -> T:
        return await self._run(self.writer, work)

    async def _read(self, work: Callable[[TrackerStore], T]) -> T:
        return await self._run(self.readers, work)

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[TrackerStore], T]) -> T:
        """Run `work` on the store in a thread. Raises Unavailable while there is no store."""
        await self.tried.wait()
        if self.store is None:
            raise Unavailable(f"the tracker is down: {self.last_error}")
        return await asyncio.get_running_loop().run_in_executor(threads, work, self.store)

    async def record(self, records: Sequence[RetrievalRecord]) -> list[str]:
        """Store records in the next group; returns after its commit. Repeats are stored once.

        Returns the ids of those that can never be stored. Raises Unavailable, nothing stored,
        while the tracker is down: then they may be sent again.
        """
        return await self.commits.put(records)

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None:
        """Store a judgement durably. Raises NotFound for an unknown retrieval or document."""
        feedback = Feedback(retrieval_id, document_id, outcome, utc_now())
        work = partial(TrackerStore.feedback, tenant=tenant, feedback=feedback)
        await self._once_recorded(retrieval_id, partial(self._write, work))

    async def retrieval(self, tenant: str, retrieval_id: str) -> TrackedRetrieval:
        """Return a retrieval with its hits and feedback. Raises NotFound for an unknown one."""
        work = partial(TrackerStore.get_record, tenant=tenant, retrieval_id=retrieval_id)
        return await self._once_recorded(retrieval_id, partial(self._read, work))

    async def retrievals(
        self, window: Window, limit: int, after: tuple[datetime, str] | None
    ) -> list[RetrievalRecord]:
        """Return retrievals without their hits, newest first, from behind `after` on."""
        return await self._read(lambda store: store.find_retrievals(window, limit, after))

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
        self, before: datetime, dry_run: bool = False, tenant: str | None = None
    ) -> PurgeCounts:
        """Delete records older than `before`, of one tenant or of all (None), in chunks between
        which other writes go on."""
        if before > utc_now():
            raise InvalidInput("before must not lie in the future", "before")
        if dry_run:
            return await self._read(lambda store: store.count_older(before, tenant))
        total = PurgeCounts()
        purge_step = partial(TrackerStore.purge_step, cutoff=before, tenant=tenant)
        while (step := await self._write(purge_step)).retrievals:
            total = total + step
        await self._write(TrackerStore.checkpoint)
        return total

    async def record_comparisons(self, comparisons: Sequence[ComparisonRecord]) -> list[str]:
        """Store comparisons; return the ids of retrievals that are not known, or not yet."""
        return await self._write(lambda store: store.record_comparisons(comparisons))

    async def report(
        self, name: str, window: Window, limit: int, offset: int, remaining_ms: float
    ) -> list[dict[str, Any]]:
        """Return a report's rows. Raises NotFound for a name that is none."""
        if name not in ROWS:
            raise NotFound(f"no such report; there are {NAMES}", "name")
        deadline = time.monotonic() + remaining_ms / 1e3
        return await self._run(
            self.reporter, lambda store: read_report(store, name, window, limit, offset, deadline)
        )

    async def record_run(self, run: RetentionRun) -> None:
        await self._write(lambda store: store.record_run(run))

    async def record_documents(
        self, corpus: CorpusKey, documents: Sequence[tuple[str, str | None]], at: datetime
    ) -> None:
        await self._write(
            lambda store: store.record_documents(corpus.tenant, corpus.name, documents, at)
        )

    async def delete_documents(
        self, corpus: CorpusKey, document_ids: Sequence[str], at: datetime
    ) -> None:
        await self._write(
            lambda store: store.delete_documents(corpus.tenant, corpus.name, document_ids, at)
        )

    async def delete_corpus(self, corpus: CorpusKey, at: datetime) -> None:
        await self._write(lambda store: store.delete_corpus(corpus.tenant, corpus.name, at))

    async def ping(self) -> bool:
        return await self._read(lambda store: True)

    async def status(self) -> dict[str, Any]:
        """Counts and retention where there is a store; `error` says why there is none."""
        return {
            "pid": os.getpid(),
            "path": str(self.path),
            "queue": len(self.commits),
            "recorded": self.commits.recorded,
            "rejected": self.commits.rejected,
            "last_error": self.commits.last_error or self.last_error,
            **await self._contents(),
        }

    async def _contents(self) -> dict[str, Any]:
        if self.store is None:
            return {"error": self.last_error or "the file is being opened", "retention": None}
        try:
            opened = await self._read(lambda store: store.opened)
            counts = await self._read(TrackerStore.counts)
            retention = await self._read(TrackerStore.retention_status)
        except Unavailable as error:
            return {"error": error.message, "retention": None}
        return {
            "error": None,
            "new_file": opened.new_file,
            "set_aside": list(opened.set_aside),
            **dataclasses.asdict(counts),
            "retention": dataclasses.asdict(retention),
        }

    async def close(self) -> None:
        """Flush what waits, so that a graceful shutdown or a redeploy loses nothing."""
        # What arrived while the file was being opened is to be flushed too.
        await asyncio.wait({self.opener}, timeout=CLOSE_WAIT_S)
        self.opener.cancel()
        await asyncio.gather(self.opener, return_exceptions=True)
        self.tried.set()
        await self.commits.close()
        await self._close_store()

    async def _close_store(self) -> None:
        """Let go of the file, which DuckDB refuses while a read is under way."""
        if self.store is None:
            return
        loop = asyncio.get_running_loop()
        reads = [
            loop.run_in_executor(None, partial(threads.shutdown, wait=True, cancel_futures=True))
            for threads in (self.readers, self.reporter)
        ]
        await asyncio.wait(reads, timeout=CLOSE_WAIT_S)
        try:
            await self._write(TrackerStore.close)
        except Unavailable as error:
            logger.warning("the tracker's file is let go when this process ends: %s", error)


def open_tracker(recorder: Recorder) -> TrackerStore:
    args = recorder.args
    return TrackerStore.open(recorder.path, memory_limit=args.memory_limit, threads=args.threads)


def utc_now() -> datetime:
    return datetime.now(timezone.utc)
