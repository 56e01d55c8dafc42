"""Shadow rerankers: they score what was served, beside the request, and are never served."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from deployments.providers.rerankers import RemoteScorer
from pipeline.agreement import kendall_tau_b, overlap_at
from pipeline.chain import SearchResult
from pipeline.documents import CorpusKey
from pipeline.errors import OnepassError
from pipeline.scoring import Pair, ScoreAnswer
from pipeline.stamps import strength_of
from tracker.records import ComparisonRecord

logger = logging.getLogger(__name__)

OVERLAP_K = 10
# What comparing may cost: pairs of a request, time for them, and requests at once.
MAX_PAIRS = 100
TIMEOUT_S = 30.0
MAX_RUNNING = 32
# The retrieval's own record may still be on its way to the tracker.
TRIES = 5
RETRY_S = 1.0

# Stores comparisons; returns the ids of retrievals that the tracker does not know yet.
Send = Callable[[Sequence[ComparisonRecord]], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Served:
    """A ranking that was served: its pairs, and their strengths by the model that served."""

    retrieval_id: str
    corpus: CorpusKey
    query: str
    retrieved_at: datetime
    model: str
    pairs: tuple[Pair, ...]
    strengths: tuple[float, ...]


def served_of(
    result: SearchResult, retrieval_id: str, corpus: CorpusKey, retrieved_at: datetime
) -> Served | None:
    """Return what of a search can be compared: the pairs that have a score, at least two.

    Hits that hold one text are one pair.
    """
    scored = {
        Pair(hit.stamp.pair, hit.body): hit.stamp.strength
        for hit in result.candidates
        if hit.stamp is not None
    }
    if len(scored) < 2 or result.model is None:
        return None
    return Served(
        retrieval_id,
        corpus,
        result.query,
        retrieved_at,
        result.model,
        tuple(scored)[:MAX_PAIRS],
        tuple(scored.values())[:MAX_PAIRS],
    )


class Shadows:
    """Runs comparisons in the background; what exceeds MAX_RUNNING is dropped and counted."""

    def __init__(
        self, scorers: Sequence[RemoteScorer], send: Send, retry_s: float = RETRY_S
    ) -> None:
        self.scorers = scorers
        self.send = send
        self.retry_s = retry_s
        self.running: set[asyncio.Task[None]] = set()
        self.compared = self.dropped = 0

    def compare(self, served: Served | None) -> None:
        """Compare a ranking with every shadow's, later; the request does not wait."""
        if not self.scorers or served is None:
            return
        if len(self.running) >= MAX_RUNNING:
            self.dropped += 1
            return
        task = asyncio.get_running_loop().create_task(self._compare(served))
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def close(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)

    async def _compare(self, served: Served) -> None:
        records = await asyncio.gather(*(ask(shadow, served) for shadow in self.scorers))
        try:
            stored = await self._store(records)
        except OnepassError as error:
            logger.warning("a comparison was not recorded: %s", error)
            stored = False
        if stored:
            self.compared += 1
        else:
            self.dropped += 1

    async def _store(self, records: Sequence[ComparisonRecord]) -> bool:
        for _ in range(TRIES):
            if not await self.send(records):
                return True
            await asyncio.sleep(self.retry_s)
        return False


async def ask(shadow: RemoteScorer, served: Served) -> ComparisonRecord:
    """Have the shadow score the same pairs; its failure is a record too."""
    started = time.perf_counter()
    try:
        answer = await shadow.score(served.query, served.pairs, TIMEOUT_S)
    except OnepassError as error:
        return record_of(shadow, served, None, None, error.message)
    return record_of(shadow, served, answer, (time.perf_counter() - started) * 1e3, None)


def record_of(
    shadow: RemoteScorer,
    served: Served,
    answer: ScoreAnswer | None,
    latency_ms: float | None,
    error: str | None,
) -> ComparisonRecord:
    """Compare the two rankings over the pairs that both scored."""
    scores = zip(served.pairs, served.strengths, answer.scores if answer else (), strict=False)
    both = [
        (pair.digest, strength, strength_of(score.logit, score.relevance))
        for pair, strength, score in scores
        if score.relevance is not None
    ]
    return ComparisonRecord(
        retrieval_id=served.retrieval_id,
        tenant=served.corpus.tenant,
        corpus=served.corpus.name,
        retrieved_at=served.retrieved_at,
        served_model=served.model,
        model=shadow.args.label,
        pairs=len(both),
        kendall=kendall_tau_b([one[1] for one in both], [one[2] for one in both]),
        overlap=overlap_at(OVERLAP_K, best_first(both, 1), best_first(both, 2)) if both else None,
        k=OVERLAP_K,
        latency_ms=latency_ms,
        error=error,
    )


def best_first(both: Sequence[tuple[str, float, float]], column: int) -> list[str]:
    """Return the digests by one ranking's strengths; ties keep their order."""
    return [one[0] for one in sorted(both, key=lambda one: -float(one[column]))]
