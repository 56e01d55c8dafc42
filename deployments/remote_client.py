"""A remote reranker as the pipeline sees it: behind a deadline, a circuit breaker and a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deployments.breaker import Breaker
from deployments.budget import RESERVE_S, left_s
from deployments.inference.score_cache import ScoreCache
from deployments.inference.truncation import Truncation
from deployments.providers.http import Refused
from deployments.providers.rerankers import RemoteScorer
from pipeline.scoring import Pair, PairScore, Score, ScoreAnswer, Tally

# How long a service that failed is left alone; then the next request tries it.
PAUSE_S = 5.0
CACHE_BYTES = 16 * 2**20


class RemoteClient:
    """Calls one remote reranker for one Composer replica, and keeps the scores it paid for."""

    def __init__(self, remote: RemoteScorer, pause_s: float = PAUSE_S) -> None:
        self.remote = remote
        args = remote.args
        self.breaker = Breaker(args.label, without_asking, pause_s)
        # A judge that ranks a list scores a text by its company, so no score carries over.
        self.cache: ScoreCache[PairScore] = ScoreCache(0 if args.dialect == "llm" else CACHE_BYTES)

    def for_search(self, tenant: str, deadline: float) -> Score:
        """Return the scoring callable of one search; `deadline` is on the monotonic clock."""
        return self._scoring(tenant, deadline, RESERVE_S)

    def for_rerank(self, tenant: str, deadline: float, truncation: Truncation) -> Score:
        """Return one that may use all of the time. The service cuts texts as it sees fit."""
        return self._scoring(tenant, deadline, 0.0)

    async def close(self) -> None:
        await self.breaker.close()

    def _scoring(self, tenant: str, deadline: float, reserve_s: float) -> Score:
        async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
            known = self._known(tenant, pairs)
            new = [pair for pair in pairs if pair.digest not in known]
            if not new:
                return merged(self.remote.args.label, pairs, known, {}, Tally())
            answer = await self._ask(query, new, left_s(deadline, reserve_s=reserve_s))
            digests = [pair.digest for pair in new]
            fresh = dict(zip(digests, answer.scores, strict=True))
            for digest, one in fresh.items():
                if one.relevance is not None:
                    self.cache.put((tenant, digest), one)
            return merged(answer.model, pairs, known, fresh, answer.tally)

        return score

    async def _ask(self, query: str, pairs: Sequence[Pair], budget_s: float) -> ScoreAnswer:
        # One tenant's request that is refused must not close the service to all others.
        with self.breaker.guarding(budget_s, spared=(Refused,)):
            return await self.remote.score(query, pairs, budget_s)

    def _known(self, tenant: str, pairs: Sequence[Pair]) -> dict[str, PairScore]:
        found = ((pair.digest, self.cache.get((tenant, pair.digest))) for pair in pairs)
        return {digest: one._replace(came_by="cache") for digest, one in found if one is not None}


async def without_asking() -> None:
    """A probe would cost money: after its pause a service is tried by a real request."""


def merged(
    model: str,
    pairs: Sequence[Pair],
    known: Mapping[str, PairScore],
    fresh: Mapping[str, PairScore],
    tally: Tally,
) -> ScoreAnswer:
    scores = tuple(known.get(pair.digest) or fresh[pair.digest] for pair in pairs)
    return ScoreAnswer(model, scores, replace(tally, cached=len(known)))
