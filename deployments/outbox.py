"""The outbox: records wait here for the tracker, so that no search ever waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from deployments.budget import left_s
from pipeline.errors import OnepassError
from tracker.records import RetrievalRecord

logger = logging.getLogger(__name__)

# Rows, that is records and their hits, in one message: well below its cap.
BATCH_ROWS = 5_000
RETRY_S = 1.0


@dataclass
class Outbox:
    """A bounded queue with one sender. What exceeds `max_rows`, records and hits, is dropped
    and counted; `send` returns the ids of records that can never be stored."""

    send: Callable[[Sequence[RetrievalRecord]], Awaitable[Sequence[str]]]
    max_rows: int
    rows: int = 0
    dropped: int = 0
    sent: int = 0
    _waiting: deque[RetrievalRecord] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _sender: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._sender = asyncio.get_running_loop().create_task(self._run())

    def put(self, record: RetrievalRecord) -> bool:
        """Queue a record; False says that it was dropped."""
        if self._waiting and self.rows + rows_of(record) > self.max_rows:
            self.dropped += 1
            return False
        self._waiting.append(record)
        self.rows += rows_of(record)
        self._wake.set()
        return True

    async def close(self, timeout_s: float) -> None:
        """Send what waits, for at most `timeout_s`; what is left counts as dropped."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        deadline = time.monotonic() + timeout_s
        try:
            while self._waiting:
                await asyncio.wait_for(self._send_batch(), left_s(deadline))
        except Exception as error:  # whatever it was, the shutdown goes on
            logger.warning("%d records were not sent before shutdown: %s", len(self), error)
            self.dropped += self._forget(len(self))

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                try:
                    await self._send_batch()
                except OnepassError as error:
                    logger.warning("the tracker does not answer, trying again: %s", error)
                    await asyncio.sleep(RETRY_S)
                except Exception:  # the sender must outlive whatever a batch brings
                    logger.exception("records cannot be sent")
                    self.dropped += self._forget(len(self._batch()))

    async def _send_batch(self) -> None:
        """Send the oldest records; they leave the queue only once they are accepted.

        A record sent twice is stored once, so an answer that got lost does no harm.
        """
        batch = self._batch()
        rejected = await self.send(batch)
        self.dropped += len(rejected)
        self.sent += self._forget(len(batch)) - len(rejected)

    def _batch(self) -> list[RetrievalRecord]:
        """The oldest records, as many as BATCH_ROWS allow, at least one."""
        batch: list[RetrievalRecord] = []
        rows = 0
        for record in self._waiting:
            rows += rows_of(record)
            if batch and rows > BATCH_ROWS:
                break
            batch.append(record)
        return batch

    def _forget(self, count: int) -> int:
        """Take the oldest records out; return how many."""
        for _ in range(count):
            self.rows -= rows_of(self._waiting.popleft())
        return count


def rows_of(record: RetrievalRecord) -> int:
    return 1 + len(record.hits)
