"""Keeping indexes up to date after writes, outside of any request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pipeline.documents import CorpusKey

logger = logging.getLogger(__name__)

# Maintenance takes at most about this share of the time, however long a round becomes.
SHARE = 0.1


# Engines keep what a write replaced for readers that are at it; then it can be deleted.
SETTLE_S = 900.0


@dataclass
class Maintenance:
    """Optimises the corpora that were written to, a moment after the first write, and once more
    when they have been left alone for a while.

    Rows that an index does not cover yet are found all the same, only slower, so nothing waits
    for this; a failure is logged, and the next round of the corpus brings the next try.
    """

    optimise: Callable[[CorpusKey], Awaitable[None]]
    pause_s: float = 2.0
    settle_s: float = SETTLE_S
    rounds: int = 0
    _written: set[CorpusKey] = field(default_factory=set)
    _settling: dict[CorpusKey, float] = field(default_factory=dict)
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
            await self._wait()
            await asyncio.sleep(pause_s)
            self._wake.clear()
            started = time.monotonic()
            await self._round()
            pause_s = max(self.pause_s, (time.monotonic() - started) / SHARE)

    async def _wait(self) -> None:
        """Wait for a write, or for a corpus to have settled."""
        # They are in the order of their last writes.
        due = next(iter(self._settling.values()), None)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout)

    async def _round(self) -> None:
        written, self._written = self._written, set()
        for corpus in written:
            self._settling.pop(corpus, None)
            self._settling[corpus] = time.monotonic() + self.settle_s
        settled = [one for one, due in self._settling.items() if due <= time.monotonic()]
        for corpus in settled:
            del self._settling[corpus]
        for corpus in dict.fromkeys([*written, *settled]):
            try:
                await self.optimise(corpus)
            except Exception:  # whatever an engine raises; the next round brings the next try
                logger.exception("corpus %s was not optimised", corpus.name)
        self.rounds += 1
