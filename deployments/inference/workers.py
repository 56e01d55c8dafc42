"""Threads that run batches from a line, one at a time in each."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from deployments.inference.line import Line
from deployments.inference.tokens import EncodedPair
from deployments.inference.work import Failed, PairModel, Stage, Work, run_batch

# How many pairs from the front on may share a batch: enough that neighbours in length are near,
# and that short ones fill a large batch.
WINDOW = 128
SHORT_PAIR = 16
# The share of a batch that may be padding.
PADDING = 1 / 16
# Room for padding in a batch that is a worker's equal share of a short line.
SLACK = 1.2


@dataclass(slots=True)
class BatchCounters:
    """Totals since the start; `busy_s` is summed over the workers."""

    batches: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    busy_s: float = 0.0


class Workers:
    """Takes batches from a line whenever a thread is free, and hands over what came of each work.

    All methods but `_run` run on one event loop.
    """

    def __init__(
        self,
        model: PairModel,
        count: int,
        max_batch_tokens: int,
        finish: Callable[[Work, float | Failed], None],
    ) -> None:
        self.model = model
        self.count = count
        self.max_batch_tokens = max_batch_tokens
        self.counters = BatchCounters()
        self._finish = finish
        self._line = Line(
            max_padding=math.floor(PADDING * max_batch_tokens),
            window=max(WINDOW, max_batch_tokens // SHORT_PAIR),
        )
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="scorer")
        self._tasks: list[asyncio.Task[None]] = []
        self._busy = 0
        self._began: dict[int, float] = {}

    def start(self) -> None:
        # One more than there are threads: its batch is ready when a thread becomes free.
        self._tasks = [asyncio.create_task(self._work(key)) for key in range(self.count + 1)]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=True)

    def add(self, work: Work) -> None:
        work.stage = Stage.WAITING
        self._line.add(work)
        self._wake.set()

    def remove(self, work: Work) -> None:
        self._line.remove(work)

    @property
    def is_alive(self) -> bool:
        """Whether every worker still takes batches."""
        return not any(task.done() for task in self._tasks)

    @property
    def running_s(self) -> float:
        """For how long the oldest batch that has not ended has been running."""
        now = time.monotonic()
        return now - min(list(self._began.values()), default=now)  # a copy: threads write to it

    def seconds_for(self, tokens: int) -> float:
        """How long so many tokens have taken so far; 0 before the first batch."""
        done = self.counters
        return tokens * done.busy_s / (done.tokens * self.count) if done.tokens else 0.0

    async def probe(self, pairs: Sequence[EncodedPair]) -> list[float | Failed]:
        """Score pairs as soon as a thread is free, past the line and without counting them."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, run_batch, self.model, pairs)

    async def _work(self, key: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = self._next_batch()
            if not batch:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._busy += 1
            results = await loop.run_in_executor(self._threads, self._run, key, batch)
            self._busy -= 1
            self._count(batch, time.monotonic() - self._began.pop(key))
            for work, result in zip(batch, results, strict=True):
                self._finish(work, result)

    def _next_batch(self) -> list[Work]:
        """Take a batch for a free thread, or for the next free one if more are waiting.

        A short line is shared out evenly, so that no thread idles while another has it all.
        """
        free = self.count - self._busy
        plenty = self._line.tokens >= self.count * self.max_batch_tokens
        if free <= 0 and not plenty:
            return []
        share = math.ceil(SLACK * self._line.tokens / max(free, 1))
        batch = self._line.take(min(share, self.max_batch_tokens))
        for work in batch:
            work.stage = Stage.RUNNING
        return batch

    def _run(self, key: int, batch: Sequence[Work]) -> list[float | Failed]:
        self._began[key] = time.monotonic()  # in the thread: before that it waited for one
        return run_batch(self.model, [work.encoded for work in batch if work.encoded])

    def _count(self, batch: Sequence[Work], seconds: float) -> None:
        self.counters.batches += 1
        self.counters.tokens += sum(work.length for work in batch)
        longest = max(work.length for work in batch)
        self.counters.padded_tokens += self.model.slots(len(batch), longest)
        self.counters.busy_s += seconds
