"""A remote reranker in the scorer's place."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from deployments.budget import left_s
from deployments.provider_options import ProviderArgs
from deployments.providers.dialects import DIALECTS, scale_of
from deployments.providers.http import Http, Refused
from deployments.providers.rankings import settle
from pipeline.errors import DeadlineExceeded, OnepassError, Unavailable
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally

logger = logging.getLogger(__name__)

# Of one ranking: enough for 1,000 texts in time, few enough not to be taken for an attack.
CALLS_AT_ONCE = 4


class RemoteScorer:
    """Has pairs scored by a service; query and texts are all that goes out.

    `invalid` counts the entries of its answers that did not count.
    """

    def __init__(self, args: ProviderArgs, http: Http) -> None:
        self.args = args
        self.http = http
        self.invalid = 0
        self._dialect = DIALECTS[args.dialect]
        self._size = args.max_documents or self._dialect.max_documents

    async def score(self, query: str, pairs: Sequence[Pair], timeout_s: float) -> ScoreAnswer:
        """Return one score a pair, in the pairs' order, by the model `args.label`.

        A pair that got no score has a reason instead, and is no pass in the tally. If none got
        one, raises DeadlineExceeded or Unavailable, and Refused where every call was refused.
        """
        deadline = time.monotonic() + timeout_s
        slots = asyncio.Semaphore(CALLS_AT_ONCE)
        failures: list[OnepassError] = []

        async def call(part: Sequence[Pair]) -> list[PairScore]:
            """Score the pairs of one call; its failure is theirs, and no other call's."""
            async with slots:
                try:
                    return await self._ask(query, [pair.text for pair in part], left_s(deadline))
                except (Unavailable, DeadlineExceeded) as error:
                    failures.append(error)
                    return [unscored(error)] * len(part)

        parts = [pairs[start : start + self._size] for start in range(0, len(pairs), self._size)]
        answers = await asyncio.gather(*(call(part) for part in parts))
        if failures and len(failures) == len(parts):
            # A refused call says nothing of the service, another failure may.
            raise min(failures, key=lambda failure: isinstance(failure, Refused))
        scores = tuple(score for answer in answers for score in answer)
        passes = sum(score.relevance is not None for score in scores)
        return ScoreAnswer(self.args.label, scores, Tally(passes=passes))

    async def _ask(self, query: str, texts: Sequence[str], timeout_s: float) -> list[PairScore]:
        body = self._dialect.body(self.args, query, texts)
        path = self.args.path or self._dialect.path
        answer = await self.http.post(self.args, path, body, timeout_s)
        try:
            ranking = self._dialect.read(answer)
        except ValueError as error:
            raise Unavailable(f"{self.args.label}: {error}") from None
        scores = settle(ranking, len(texts), scale_of(self.args))
        if scores.invalid:
            self.invalid += scores.invalid
            logger.warning("%s: %d results do not count", self.args.label, scores.invalid)
        missing = Unavailable(f"{self.args.label} gave no score for this text")
        if not scores.by_index:
            raise missing
        return [scores.by_index.get(index) or unscored(missing) for index in range(len(texts))]


def unscored(error: OnepassError) -> PairScore:
    late = isinstance(error, DeadlineExceeded)
    return PairScore(None, None, reason=error.message, late=late)
