"""The Scorer as the pipeline sees it: a callable behind a deadline and a circuit breaker."""

from __future__ import annotations

import time
from collections.abc import Sequence

from deployments.breaker import Breaker
from deployments.handles import Handle, call
from pipeline.errors import DeadlineExceeded, Unavailable
from pipeline.scoring import Pair, Score, ScoreAnswer

# What a search keeps for itself after the scorer's time is up: sorting, recording, answering.
RESERVE_S = 0.5
# How much longer than its own limit a replica may take to answer before it counts as lost.
GRACE_S = 0.25
PROBE_TIMEOUT_S = 1.0
# The scorer cuts a text at 16 characters a token, and no window is wider than 8,192 tokens: the
# rest of a text need not cross the handle.
CHARACTER_CAP = 16 * 8192


class RemoteScorer:
    """Calls the Scorer deployment for one Composer replica."""

    def __init__(self, handle: Handle, timeout_ms: int) -> None:
        self.handle = handle
        self.timeout_s = timeout_ms / 1e3
        self.breaker = Breaker("Scorer", lambda: call(handle, "ping", timeout_s=PROBE_TIMEOUT_S))

    def bound(self, tenant: str, deadline: float) -> Score:
        """Return the scoring callable of one search; `deadline` is on the monotonic clock."""
        return self._scoring(tenant, deadline - RESERVE_S, self.timeout_s)

    def bound_whole(self, tenant: str, deadline: float) -> Score:
        """Return one that may use all of the time: where scoring is all that was asked for."""
        return self._scoring(tenant, deadline, deadline - time.monotonic())

    def _scoring(self, tenant: str, deadline: float, limit_s: float) -> Score:

        async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
            self.breaker.check()
            budget = min(limit_s, deadline - time.monotonic())
            if budget <= 0:
                raise DeadlineExceeded("no time is left for scoring")
            try:
                return await self._call(tenant, query, pairs, budget)
            except Unavailable:
                self.breaker.trip()
                raise
            except DeadlineExceeded:
                # A caller in a hurry says nothing of the scorer's health.
                if budget > PROBE_TIMEOUT_S:
                    self.breaker.trip()
                raise

        return score

    async def _call(
        self, tenant: str, query: str, pairs: Sequence[Pair], budget_s: float
    ) -> ScoreAnswer:
        texts = [(pair.digest, pair.text[:CHARACTER_CAP]) for pair in pairs]
        answer: ScoreAnswer = await call(
            self.handle,
            "score",
            tenant,
            query,
            texts,
            timeout_s=budget_s + GRACE_S,
            grace_s=GRACE_S,
            retry=True,
        )
        return answer
