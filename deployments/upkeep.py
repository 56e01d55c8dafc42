"""Keeping the tracker's file small, beside its use: purging, and writing it anew."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from tracker.purging import next_chunk
from tracker.records import Compacted, PurgeCounts, Scope
from tracker.store import FIRST_CHUNK, TrackerStore

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Runs(Protocol):
    """Runs work on the store in some thread."""

    async def __call__(self, work: Callable[[TrackerStore], T], /) -> T: ...


class Upkeep:
    """Purges and compactions, one after another. `write` runs in the writer's thread, `aside` in
    one beside it; within `quiet` no read is under way."""

    def __init__(
        self, write: Runs, aside: Runs, quiet: Callable[[], AbstractAsyncContextManager[Any]]
    ) -> None:
        self.write = write
        self.aside = aside
        self.quiet = quiet
        self.turn = asyncio.Lock()
        self.compaction: asyncio.Task[Compacted] | None = None

    async def purge(self, before: datetime, scope: Scope) -> PurgeCounts:
        """Delete a scope's records older than `before`, in steps between which other writes go
        on; a step is as large as keeps their wait short."""
        async with self.turn:
            total, chunk = PurgeCounts(), FIRST_CHUNK
            while True:
                step, seconds = await self.write(partial(timed_step, before, chunk, scope))
                if not step.retrievals:
                    break
                total, chunk = total + step, next_chunk(chunk, seconds)
            await self.write(TrackerStore.checkpoint)
        return total

    async def compact(self) -> Compacted:
        """Write the file anew, so that it gives back the space of what was deleted.

        It goes on if the caller leaves; who asks meanwhile waits for the same one.
        """
        if self.compaction is None or self.compaction.done():
            self.compaction = asyncio.get_running_loop().create_task(self._compact())
        return await asyncio.shield(self.compaction)

    async def _compact(self) -> Compacted:
        async with self.turn:
            try:
                await self.write(TrackerStore.begin_compaction)
                await self.aside(TrackerStore.copy_for_compaction)
                async with self.quiet():
                    compacted = await self.write(TrackerStore.finish_compaction)
            finally:
                await self.write(TrackerStore.abandon_compaction)
        logger.info("tracker: compacted, %s", compacted)
        return compacted


def timed_step(
    before: datetime, chunk: int, scope: Scope, store: TrackerStore
) -> tuple[PurgeCounts, float]:
    started = time.perf_counter()
    counts = store.purge_step(before, chunk, scope)
    return counts, time.perf_counter() - started
