"""Keeping indexes up to date after writes, outside of any request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pipeline.documents import CorpusKey

logger = logging.getLogger(__name__)

# Maintenance takes at most about this share of the time, however long a round becomes.
SHARE = 0.1


@dataclass
class Maintenance:
    """Optimises the corpora that were written to, a moment after the first write.

    Rows that an index does not cover yet are found all the same, only slower, so nothing waits
    for this; a failure is logged, and the next write brings the next try.
    """

    optimise: Callable[[CorpusKey], Awaitable[None]]
    pause_s: float = 2.0
    rounds: int = 0
    _written: set[CorpusKey] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def written(self, corpus: CorpusKey) -> None:
        self._written.add(corpus)
        self._wake.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause_s = self.pause_s
        while True:
            await self._wake.wait()
            await asyncio.sleep(pause_s)
            self._wake.clear()
            started = time.monotonic()
            await self._round()
            pause_s = max(self.pause_s, (time.monotonic() - started) / SHARE)

    async def _round(self) -> None:
        written, self._written = self._written, set()
        for corpus in written:
            try:
                await self.optimise(corpus)
            except Exception:  # whatever an engine raises; the next write brings the next try
                logger.exception("corpus %s was not optimised", corpus.name)
        self.rounds += 1
