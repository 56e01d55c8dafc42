"""Batching pairs across requests: one owner of one queue, pure asyncio.

A batch starts as soon as a worker is free. It is built around the oldest waiting pair with the
pairs nearest to it in length, under a budget on padded tokens: so the oldest pair always goes
next, and padding stays small. Identical pairs in flight share one pass; finished ones are
answered from the cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from deployments.inference.score_cache import RawScore, ScoreCache
from deployments.inference.work import (
    PairModel,
    PairOutcome,
    Work,
    outcome_of,
    pick_batch,
    run_batch,
)
from pipeline.context import CHARACTERS_PER_TOKEN
from pipeline.errors import Overloaded
from pipeline.scoring import Pair

logger = logging.getLogger(__name__)

# [CLS], [SEP] and [SEP], or their like.
SPECIAL_TOKENS = 3


@dataclass(slots=True)
class Counters:
    """Totals since the start."""

    pairs_requested: int = 0
    pairs_scored: int = 0
    pairs_cached: int = 0
    pairs_shared: int = 0
    pairs_failed: int = 0
    pairs_dropped: int = 0
    batches: int = 0
    tokens: int = 0
    padded_tokens: int = 0


class PairFailed(Exception):
    """This pair has no score; the message is the reason."""


@dataclass(eq=False)
class Batcher:
    """Owns the queue. All methods run on one event loop; the model runs in `workers` threads.

    `max_queued_tokens` bounds admission: over it `score` raises Overloaded, unless nothing is
    queued, so that one large request is never refused for ever.
    """

    model: PairModel
    cache: ScoreCache
    workers: int = 1
    max_batch_tokens: int = 512
    max_queued_tokens: int = 1_000_000
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.queued_tokens = 0
        self._in_flight: dict[tuple[str, str], Work] = {}
        self._pending: dict[Work, None] = {}
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="scorer")
        # Tokenising has a thread of its own: a long request must not keep batches from starting.
        self._tokenizer = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._running = [self._spawn(self._work()) for _ in range(self.workers)]

    @property
    def is_alive(self) -> bool:
        """Whether every worker still takes batches."""
        return not any(task.done() for task in self._running)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=True)
        self._tokenizer.shutdown(wait=True)

    async def score(
        self, tenant: str, query: str, pairs: Sequence[Pair], timeout_s: float
    ) -> list[PairOutcome]:
        """Return one outcome a pair, in order; what is not done in time has a reason instead.

        When the caller is cancelled or the time is up, pairs nobody else waits for are dropped
        before they run.
        """
        self.counters.pairs_requested += len(pairs)
        known = [
            self.cache.get(tenant, pair.digest) or self._in_flight.get((tenant, pair.digest))
            for pair in pairs
        ]
        missing = [pair for pair, source in zip(pairs, known, strict=True) if source is None]
        fresh = self._admit(tenant, query, missing)
        sources = [source or fresh[pair.digest] for pair, source in zip(pairs, known, strict=True)]
        await self._wait([source for source in sources if isinstance(source, Work)], timeout_s)
        outcomes = [
            outcome_of(source, own=pair.digest in fresh)
            for pair, source in zip(pairs, sources, strict=True)
        ]
        self.counters.pairs_cached += sum(o.origin == "cache" for o in outcomes)
        self.counters.pairs_shared += sum(o.origin == "shared" for o in outcomes)
        return outcomes

    def _admit(self, tenant: str, query: str, pairs: Sequence[Pair]) -> dict[str, Work]:
        """Register new work under its key, so that later requests join it, and tokenise it."""
        loop = asyncio.get_running_loop()
        works = {
            pair.digest: Work(tenant, pair, self._cost(query, pair.text), loop.create_future())
            for pair in pairs
        }
        cost = sum(work.cost for work in works.values())
        if self.queued_tokens and self.queued_tokens + cost > self.max_queued_tokens:
            raise Overloaded(
                f"the scorer's queue is full ({self.max_queued_tokens} tokens)", None, 1
            )
        self.queued_tokens += cost
        for work in works.values():
            self._in_flight[(tenant, work.pair.digest)] = work
        if works:
            self._spawn(self._tokenise(query, list(works.values())))
        return works

    def _cost(self, query: str, text: str) -> int:
        estimate = (len(query) + len(text)) // CHARACTERS_PER_TOKEN + SPECIAL_TOKENS
        return min(self.model.max_tokens, estimate)

    async def _tokenise(self, query: str, works: list[Work]) -> None:
        loop = asyncio.get_running_loop()
        texts = [work.pair.text for work in works]
        try:
            encoded = await loop.run_in_executor(self._tokenizer, self.model.encode, query, texts)
        except Exception:  # whatever the tokenizer meets, other requests go on
            logger.exception("tokenising %d pairs failed", len(works))
            self.counters.pairs_failed += len(works)
            for work in works:
                self._fail(work, "tokenising failed")
            return
        for work, one in zip(works, encoded, strict=True):
            work.encoded = one
            self._pending[work] = None
        self._wake.set()

    async def _wait(self, works: Sequence[Work], timeout_s: float) -> None:
        for work in works:
            work.waiters += 1
        try:
            if works:
                await asyncio.wait({work.done for work in works}, timeout=max(timeout_s, 0.0))
        finally:
            for work in works:
                work.waiters -= 1

    async def _work(self) -> None:
        """One worker: take the next batch whenever the device is free."""
        loop = asyncio.get_running_loop()
        while True:
            batch = self._next_batch()
            if not batch:
                self._wake.clear()
                await self._wake.wait()
                continue
            results = await loop.run_in_executor(
                self._threads, run_batch, self.model, [w.encoded for w in batch if w.encoded]
            )
            self._finish(batch, results)

    def _next_batch(self) -> list[Work]:
        for work in [w for w in self._pending if w.waiters == 0]:
            del self._pending[work]
            self.counters.pairs_dropped += 1
            self._fail(work, "nobody waits for it")
        batch = pick_batch(list(self._pending), self.max_batch_tokens)
        for work in batch:
            del self._pending[work]
        return batch

    def _finish(self, batch: Sequence[Work], results: Sequence[float | str]) -> None:
        self.counters.batches += 1
        self.counters.tokens += sum(work.length for work in batch)
        self.counters.padded_tokens += len(batch) * max(work.length for work in batch)
        for work, result in zip(batch, results, strict=True):
            if isinstance(result, str):
                self.counters.pairs_failed += 1
                self._fail(work, result)
            else:
                self._complete(work, result)

    def _complete(self, work: Work, logit: float) -> None:
        self.counters.pairs_scored += 1
        truncated = work.encoded is not None and work.encoded.truncated
        score = RawScore(logit, truncated, work.length)
        self.cache.put(work.tenant, work.pair.digest, score)
        self._release(work)
        work.done.set_result(score)

    def _fail(self, work: Work, reason: str) -> None:
        self._release(work)
        work.done.set_exception(PairFailed(reason))
        work.done.exception()  # marks it retrieved: perhaps nobody is left to do so

    def _release(self, work: Work) -> None:
        self.queued_tokens -= work.cost
        self._in_flight.pop((work.tenant, work.pair.digest), None)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
