"""The Scorer as the pipeline sees it: a callable behind a deadline and a circuit breaker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deployments.breaker import Breaker
from deployments.budget import RESERVE_S, left_s
from deployments.handles import Handle, call
from deployments.inference.truncation import (
    AS_CONFIGURED,
    MAX_CHARACTERS_PER_TOKEN,
    MAX_WINDOW,
    Side,
    Truncation,
    kept,
)
from pipeline.errors import DeadlineExceeded, OnepassError
from pipeline.scoring import Pair, Score, ScoreAnswer, first_failure

PROBE_TIMEOUT_S = 1.0
# The rest of a text need not cross the handle, but for one character: it tells that there is more.
CHARACTER_CAP = MAX_CHARACTERS_PER_TOKEN * MAX_WINDOW + 1


class ScorerClient:
    """Calls the Scorer deployment for one Composer replica."""

    def __init__(self, handle: Handle, timeout_ms: int) -> None:
        self.handle = handle
        self.timeout_s = timeout_ms / 1e3
        self.breaker = Breaker("Scorer", lambda: call(handle, "ping", timeout_s=PROBE_TIMEOUT_S))

    def for_search(self, tenant: str, deadline: float) -> Score:
        """Return the scoring callable of one search; `deadline` is on the monotonic clock."""
        return self._scoring(tenant, deadline, AS_CONFIGURED, self.timeout_s, RESERVE_S)

    def for_rerank(self, tenant: str, deadline: float, truncation: Truncation) -> Score:
        """Return one that may use all of the time, for scoring is all that was asked."""
        return self._scoring(tenant, deadline, truncation, None, 0.0)

    async def count_tokens(self, texts: Sequence[str], timeout_s: float) -> list[int]:
        """Count each text's tokens by the scorer's own tokenizer."""
        self.breaker.check()
        counts: list[int] = await call(
            self.handle, "count_tokens", list(texts), timeout_s=timeout_s, retry=True
        )
        return counts

    async def describe(self) -> dict[str, Any]:
        """The model's fingerprint and its window."""
        described: dict[str, Any] = await call(
            self.handle, "describe", timeout_s=PROBE_TIMEOUT_S, retry=True
        )
        return described

    async def close(self) -> None:
        await self.breaker.close()

    def _scoring(
        self,
        tenant: str,
        deadline: float,
        truncation: Truncation,
        limit_s: float | None,
        reserve_s: float,
    ) -> Score:
        async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
            budget_s = left_s(deadline, limit_s, reserve_s)
            with self.breaker.guarding(budget_s):
                answer = await self._call(tenant, query, pairs, truncation, budget_s)
                failure = failure_of(answer)
                if isinstance(failure, DeadlineExceeded):
                    raise failure
            if failure is not None:
                raise failure  # by pairs that no model scores: the scorer is well
            return answer

        return score

    async def _call(
        self,
        tenant: str,
        query: str,
        pairs: Sequence[Pair],
        truncation: Truncation,
        budget_s: float,
    ) -> ScoreAnswer:
        answer: ScoreAnswer = await call(
            self.handle,
            "score",
            tenant,
            query,
            [shortened(pair, truncation.side) for pair in pairs],
            truncation,
            timeout_s=budget_s,
            retry=True,
            tell_time=True,
        )
        return answer


def failure_of(answer: ScoreAnswer) -> OnepassError | None:
    """Say why no pair has a score, if none has: that it was late, if that holds for any."""
    if any(one.relevance is not None for one in answer.scores):
        return None
    late = tuple(one for one in answer.scores if one.late)
    return first_failure(replace(answer, scores=late or answer.scores))


def shortened(pair: Pair, side: Side | None) -> Pair:
    """Return the pair with what the scorer may look at of its text.

    That is one end, or both where the model's own settings decide which.
    """
    text = pair.text
    if len(text) <= CHARACTER_CAP:
        return pair
    if side is not None:
        return pair._replace(text=text[kept(len(text), CHARACTER_CAP, side)])
    if len(text) <= 2 * CHARACTER_CAP:
        return pair
    return pair._replace(text=text[:CHARACTER_CAP] + text[-CHARACTER_CAP:])
