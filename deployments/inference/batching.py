"""Batching pairs across requests: one owner of one queue, pure asyncio.

A batch starts as soon as a thread is free. Requests are served by when they are due: the tokens
admitted before them, plus twice their own. So equal requests go first come, first served, a
small one does not wait for all of a large one, and those that pass a request have together no
more tokens than it has itself, as estimated (but for those that fill up batches: see `Line`).
Identical pairs in flight share one pass; finished ones are answered from the cache.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import math
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from deployments.inference.score_cache import Key, RawScore, ScoreCache
from deployments.inference.truncation import AS_CONFIGURED, Limits, Truncation
from deployments.inference.work import (
    DROPPED,
    Failed,
    PairModel,
    PairOutcome,
    Request,
    Stage,
    Work,
    encode_texts,
    outcome_of,
)
from deployments.inference.workers import Workers
from pipeline.context import CHARACTERS_PER_TOKEN
from pipeline.errors import Overloaded
from pipeline.scoring import Pair

# [CLS], [SEP] and [SEP], or their like.
SPECIAL_TOKENS = 3
# Texts tokenised at a time: the device starts on the first while the others follow, and a small
# request does not wait for all of a large one.
SLICE = 32
LONGEST_RETRY_S = 60


@dataclass(slots=True)
class Counters:
    """Totals since the start. `pairs_requested` counts those of requests that were admitted."""

    pairs_requested: int = 0
    pairs_scored: int = 0
    pairs_cached: int = 0
    pairs_shared: int = 0
    pairs_failed: int = 0
    pairs_dropped: int = 0


@dataclass(eq=False)
class Batcher:
    """Owns the queue. All methods run on one event loop; the model runs in `threads` threads, and
    the tokenizer in `tokenizer_threads` others.

    `max_batch_tokens` bounds a batch, padding included, unless it is a single pair.
    `max_queued_tokens` bounds admission: where more than that would go before a request, `score`
    raises Overloaded. So neither a large request nor those that pass it are refused for its size.
    """

    model: PairModel
    cache: ScoreCache[RawScore]
    threads: int = 1
    tokenizer_threads: int = 1
    max_batch_tokens: int = 512
    max_queued_tokens: int = 1_000_000
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.queued_tokens = 0
        self._admitted_tokens = 0
        self.workers = Workers(self.model, self.threads, self.max_batch_tokens, self._finish)
        # Tokenising has threads of its own: a long request must not keep batches from starting.
        self._tokenizers = ThreadPoolExecutor(
            self.tokenizer_threads, thread_name_prefix="tokenizer"
        )
        self._requests = itertools.count()
        self._in_flight: dict[Key, Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self.workers.start()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.workers.close()
        self._tokenizers.shutdown(wait=True)

    @property
    def pairs_in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def totals(self) -> dict[str, Any]:
        """Every counter by name."""
        return {**dataclasses.asdict(self.counters), **dataclasses.asdict(self.workers.counters)}

    async def score(
        self,
        tenant: str,
        query: str,
        pairs: Sequence[Pair],
        timeout_s: float,
        truncation: Truncation = AS_CONFIGURED,
    ) -> list[PairOutcome]:
        """Return one outcome a pair, in order; what is not done in time has a reason instead.

        When the caller is cancelled or the time is up, pairs nobody else waits for are dropped
        before they run. Raises Overloaded when the queue is full.
        """
        limits = self.model.limits(truncation)
        keys = [Key(tenant, limits, pair.digest) for pair in pairs]
        known = [self.cache.get(key) or self._in_flight.get(key) for key in keys]
        missing = {
            key: pair.text
            for key, pair, source in zip(keys, pairs, known, strict=True)
            if source is None
        }
        joined = dict.fromkeys(one for one in known if isinstance(one, Work))
        fresh = self._admit(query, truncation, missing, joined)
        self.counters.pairs_requested += len(pairs)
        sources = [source or fresh[key] for key, source in zip(keys, known, strict=True)]
        await self._wait({one for one in sources if isinstance(one, Work)}, timeout_s)
        # A pair that a request holds twice has one pass: the second joins the first.
        outcomes = [
            outcome_of(source, own=fresh.pop(key, None) is not None)
            for key, source in zip(keys, sources, strict=True)
        ]
        self.counters.pairs_cached += sum(one.origin == "cache" for one in outcomes)
        self.counters.pairs_shared += sum(one.origin == "shared" for one in outcomes)
        return outcomes

    def _admit(
        self, query: str, truncation: Truncation, texts: Mapping[Key, str], joined: Iterable[Work]
    ) -> dict[Key, Work]:
        """Register new work under its key, so that later requests join it, and tokenise it."""
        costs = [self._estimate(query, text, key.limits) for key, text in texts.items()]
        cost = sum(costs)
        due = self._admitted_tokens + 2 * (cost + sum(work.cost for work in joined))
        if texts:
            self._check_room(due)
        number = next(self._requests)
        works = {
            key: Work(key, text, cost, due, number)
            for (key, text), cost in zip(texts.items(), costs, strict=True)
        }
        self.queued_tokens += cost
        self._admitted_tokens += cost
        self._in_flight.update(works)
        for work in joined:
            self._hasten(work, due)
        if works:
            self._spawn(self._tokenise(query, truncation, list(works.values())))
        return works

    def _estimate(self, query: str, text: str, limits: Limits) -> int:
        query_tokens = min(len(query) // CHARACTERS_PER_TOKEN, limits.query)
        text_tokens = min(len(text) // CHARACTERS_PER_TOKEN, limits.document)
        return min(self.model.max_tokens, query_tokens + text_tokens + SPECIAL_TOKENS)

    def _check_room(self, due: int) -> None:
        """Refuse a request that is due behind too much work."""
        ahead = sum(work.cost for work in self._in_flight.values() if work.due <= due)
        if ahead > self.max_queued_tokens:
            seconds = math.ceil(self.workers.seconds_for(ahead))
            raise Overloaded(
                f"the scorer's queue is full: more than {self.max_queued_tokens} tokens are ahead",
                retry_after_s=min(max(seconds, 1), LONGEST_RETRY_S),
            )

    def _hasten(self, work: Work, due: int) -> None:
        """Move work that a request due earlier has joined forward."""
        if due >= work.due:
            return
        work.due = due
        if work.stage is Stage.WAITING:
            self.workers.remove(work)  # found by its rank, which is still the old one
            self.workers.add(work)

    async def probe(self, query: str, text: str) -> float | Failed:
        """Score a pair past the queue, as soon as threads are free, and without counting it."""
        loop = asyncio.get_running_loop()
        (pair,) = await loop.run_in_executor(
            self._tokenizers, encode_texts, self.model, query, [text], AS_CONFIGURED
        )
        if isinstance(pair, Failed):
            return pair
        (logit,) = await self.workers.probe([pair])
        return logit

    async def _tokenise(self, query: str, truncation: Truncation, works: Sequence[Work]) -> None:
        """Tokenise in slices, the longest texts first, and put each slice in line."""
        loop = asyncio.get_running_loop()
        ordered = sorted(works, key=lambda work: -len(work.text))
        for start in range(0, len(ordered), SLICE):
            part = [work for work in ordered[start : start + SLICE] if work.result is None]
            if not part:
                continue
            texts = [work.text for work in part]
            encoded = await loop.run_in_executor(
                self._tokenizers, encode_texts, self.model, query, texts, truncation
            )
            for work, one in zip(part, encoded, strict=True):
                if isinstance(one, Failed):
                    self._finish(work, one)
                elif work.result is None:
                    self.queued_tokens += one.length - work.cost
                    work.encoded, work.text = one, ""
                    work.cost = work.length = one.length
                    self.workers.add(work)

    async def _wait(self, works: set[Work], timeout_s: float) -> None:
        if not works:
            return
        request = Request(len(works), asyncio.get_running_loop().create_future())
        for work in works:
            work.waiting.append(request)
        try:
            await asyncio.wait({request.done}, timeout=max(timeout_s, 0.0))
        finally:
            for work in works:
                self._leave(work, request)

    def _leave(self, work: Work, request: Request) -> None:
        """Drop work for which nobody waits any more, unless it runs: that is kept for repeats."""
        work.waiting.remove(request)
        if work.waiting or work.result is not None or work.stage is Stage.RUNNING:
            return
        if work.stage is Stage.WAITING:
            self.workers.remove(work)
        self.counters.pairs_dropped += 1
        self._settle(work, DROPPED)

    def _finish(self, work: Work, result: float | Failed) -> None:
        """Take a work's logit, or why it has none; once only, for it may have been dropped."""
        if work.result is not None:
            return
        if isinstance(result, Failed):
            self.counters.pairs_failed += 1
            self._settle(work, result)
            return
        self.counters.pairs_scored += 1
        truncated = work.encoded is not None and work.encoded.truncated
        score = RawScore(result, truncated, work.length)
        self.cache.put(work.key, score)
        self._settle(work, score)

    def _settle(self, work: Work, result: RawScore | Failed) -> None:
        self.queued_tokens -= work.cost
        del self._in_flight[work.key]
        work.settle(result)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that is kept until it ends; the loop itself keeps weak references only."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
