"""The tracker's file in the one process that owns it: opening it, and the threads that use it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from pipeline.errors import Unavailable
from tracker.errors import Locked
from tracker.store import TrackerStore

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[TrackerStore], T]

# A lock is not yet a failure: the file's last owner may be on its way out.
LOCK_WAIT_S = 60.0
LOCK_RETRY_S = 1.0
OPEN_RETRY_S = 30.0
CLOSE_WAIT_S = 2.0
# A report may take longer; the new file is given up then rather than that all wait.
QUIET_WAIT_S = 5.0


class TrackerFile:
    """One writer's thread, some that read, and a store as soon as `open_store` gives one.

    Until the first try to open has ended all work waits; then it raises Unavailable while there
    is no store.
    """

    def __init__(self, open_store: Callable[[], TrackerStore]) -> None:
        self.open_store = open_store
        self.store: TrackerStore | None = None
        self.last_error: str | None = None
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="tracker-writer")
        self.start_reading()
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.tried = asyncio.Event()
        self.opener = asyncio.get_running_loop().create_task(self._open())

    def start_reading(self) -> None:
        self.readers = ThreadPoolExecutor(2, thread_name_prefix="tracker-reader")
        # One of its own, so that nothing else that is read waits for a report.
        self.reporter = ThreadPoolExecutor(1, thread_name_prefix="tracker-reporter")

    async def _open(self) -> None:
        """Open the file, and go on trying: a tracker that is down must not keep searches down.

        Its last owner may hold it for a moment; whatever else is wrong takes a person.
        """
        loop = asyncio.get_running_loop()
        give_up = time.monotonic() + LOCK_WAIT_S
        while self.store is None:
            try:
                self.store = await loop.run_in_executor(self.writer, self.open_store)
            except Exception as error:  # a process boundary: the file system and DuckDB
                logger.error("the tracker's file does not open: %s", error)
                self.last_error = str(error)
                locked = isinstance(error, Locked)
                if not locked or time.monotonic() > give_up:
                    self.tried.set()  # calls fail from now on, instead of waiting
                await asyncio.sleep(LOCK_RETRY_S if locked else OPEN_RETRY_S)
        self.tried.set()

    async def write(self, work: Work[T]) -> T:
        """Run what writes, in its turn."""
        return await self._run(self.writer, work, await self._opened())

    async def read(self, work: Work[T]) -> T:
        store = await self._opened()
        await self.may_read.wait()
        return await self._run(self.readers, work, store)

    async def report(self, work: Work[T]) -> T:
        """Run what reads for long."""
        store = await self._opened()
        await self.may_read.wait()
        return await self._run(self.reporter, work, store)

    async def aside(self, work: Work[T]) -> T:
        """Run what goes on for long, in a thread of its own."""
        return await self._run(None, work, await self._opened())

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Within this no read is under way; those that come wait.

        Raises Unavailable if one goes on for longer than QUIET_WAIT_S.
        """
        self.may_read.clear()
        try:
            if not await self._end_reads(QUIET_WAIT_S, cancel=False):
                raise Unavailable("a report is being read", retry_after_s=30)
            yield
        finally:
            self.start_reading()
            self.may_read.set()

    async def close(self) -> None:
        """Let go of the file, which DuckDB refuses while a read is under way."""
        self.opener.cancel()
        await asyncio.gather(self.opener, return_exceptions=True)
        self.tried.set()
        if self.store is None:
            return
        await self._end_reads(CLOSE_WAIT_S, cancel=True)
        try:
            await self.write(TrackerStore.close)
        except Unavailable as error:
            logger.warning("the tracker's file is let go when this process ends: %s", error)

    async def _end_reads(self, timeout_s: float, *, cancel: bool) -> bool:
        """Take no more reads, and wait for those that there are; say whether all have ended."""
        loop = asyncio.get_running_loop()
        ends = [
            loop.run_in_executor(None, partial(pool.shutdown, wait=True, cancel_futures=cancel))
            for pool in (self.readers, self.reporter)
        ]
        _, unfinished = await asyncio.wait(ends, timeout=timeout_s)
        return not unfinished

    async def _opened(self) -> TrackerStore:
        await self.tried.wait()
        if self.store is None:
            raise Unavailable(f"the tracker is down: {self.last_error}")
        return self.store

    async def _run(
        self, threads: ThreadPoolExecutor | None, work: Work[T], store: TrackerStore
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work, store)
