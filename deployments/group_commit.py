"""Committing records in groups: one transaction for all that arrived within a moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline.errors import InvalidInput, Unavailable
from tracker.records import RetrievalRecord
from tracker.store import TrackerStore

logger = logging.getLogger(__name__)

GROUP_RECORDS = 1000
GROUP_WAIT_S = 0.1

# Runs a write on the store and returns how many records were new.
Write = Callable[[Callable[[TrackerStore], int]], Awaitable[int]]


@dataclass(eq=False, slots=True)
class Waiting:
    """Records that wait for the next group commit."""

    records: Sequence[RetrievalRecord]
    done: asyncio.Future[list[str]]

    def resolve(self, result: list[str] | Exception) -> None:
        """Answer with the ids of rejected records, or an error."""
        if self.done.done():  # its sender has gone
            return
        if isinstance(result, Exception):
            self.done.set_exception(result)
        else:
            self.done.set_result(result)


class GroupCommit:
    """A queue of records with one committer; `last_error` says why records were not stored."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.waiting: list[Waiting] = []
        self.wake = asyncio.Event()
        self.recorded = self.rejected = 0
        self.last_error: str | None = None
        self.committer = asyncio.get_running_loop().create_task(self._commit_groups())

    def __len__(self) -> int:
        """How many records wait."""
        return sum(len(waiting.records) for waiting in self.waiting)

    async def put(self, records: Sequence[RetrievalRecord]) -> list[str]:
        """Store records in the next group; returns after its commit. Repeats are stored once.

        Returns the ids of those that can never be stored. Raises Unavailable, nothing stored,
        while the tracker is down: then they may be sent again.
        """
        waiting = Waiting(records, asyncio.get_running_loop().create_future())
        self.waiting.append(waiting)
        self.wake.set()
        try:
            return await waiting.done
        finally:
            if waiting in self.waiting:
                self.waiting.remove(waiting)

    async def close(self) -> None:
        """Commit what waits, and end."""
        self.committer.cancel()
        await asyncio.gather(self.committer, return_exceptions=True)
        while self.waiting:
            await self._commit(self._take_group())

    async def _commit_groups(self) -> None:
        """Commit what waits as one transaction, at most every GROUP_WAIT_S unless it is full."""
        while True:
            await self.wake.wait()
            self.wake.clear()
            if len(self) < GROUP_RECORDS:
                await asyncio.sleep(GROUP_WAIT_S)
            group = self._take_group()
            try:
                await self._commit(group)
            except asyncio.CancelledError:
                self.waiting[:0] = group  # `close` commits it: what was stored is stored once
                raise

    def _take_group(self) -> list[Waiting]:
        """Take the oldest waiting records, GROUP_RECORDS or a little more."""
        size, count = 0, 0
        while count < len(self.waiting) and size < GROUP_RECORDS:
            size += len(self.waiting[count].records)
            count += 1
        group, self.waiting = self.waiting[:count], self.waiting[count:]
        if self.waiting:
            self.wake.set()
        return group

    async def _commit(self, group: Sequence[Waiting]) -> None:
        """Commit a group as one transaction; if it holds a bad value, its records one by one."""
        records = [record for waiting in group for record in waiting.records]
        try:
            self.recorded += await self.write(lambda store: store.record(records))
        except InvalidInput:
            for waiting in group:
                await self._commit_alone(waiting)
        except Exception as error:  # the committer must outlive whatever the database raises
            self._fail(group, error)
        else:
            for waiting in group:
                waiting.resolve([])

    async def _commit_alone(self, waiting: Waiting) -> None:
        """Store each record by itself, so that a bad one holds up no other."""
        rejected: list[str] = []
        for record in waiting.records:
            try:
                self.recorded += await self.write(partial(record_one, record))
            except InvalidInput:
                logger.exception("retrieval %s cannot be stored", record.retrieval_id)
                rejected.append(record.retrieval_id)
            except Exception as error:
                self._fail([waiting], error)
                return
        self.rejected += len(rejected)
        waiting.resolve(rejected)

    def _fail(self, group: Sequence[Waiting], error: Exception) -> None:
        logger.error("records were not stored", exc_info=error)
        self.last_error = str(error)
        for waiting in group:
            waiting.resolve(Unavailable("the tracker is down"))


def record_one(record: RetrievalRecord, store: TrackerStore) -> int:
    return store.record([record])
