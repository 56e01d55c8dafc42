"""The scorer and its fallbacks, asked one after another."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from deployments.breaker import Breaker
from deployments.budget import RESERVE_S, left_s
from deployments.config import AppArgs, ScorerArgs
from deployments.handles import Handle
from deployments.inference.truncation import Truncation
from deployments.provider_options import FallbackArgs
from deployments.providers.http import Http
from deployments.providers.rerankers import RemoteScorer
from deployments.remote_client import RemoteClient
from deployments.scorer_client import ScorerClient
from pipeline.errors import DeadlineExceeded, Unavailable
from pipeline.grading import Thresholds
from pipeline.scoring import Pair, Score, ScoreAnswer

logger = logging.getLogger(__name__)


class Client(Protocol):
    """One scorer, local or remote."""

    breaker: Breaker

    def for_search(self, tenant: str, deadline: float) -> Score: ...

    def for_rerank(self, tenant: str, deadline: float, truncation: Truncation) -> Score: ...

    async def close(self) -> None: ...


class Scorers:
    """A Client of several: the next is asked for the whole pool when one fails.

    While another stands behind it, a scorer has half of the time that is left for scoring.
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = clients
        self.fallbacks_used = 0

    @property
    def breaker(self) -> Breaker:
        """That of the first."""
        return self.clients[0].breaker

    @property
    def local(self) -> ScorerClient | None:
        """The scorer of this application, which can count tokens too."""
        first = self.clients[0]
        return first if isinstance(first, ScorerClient) else None

    @property
    def model(self) -> str | None:
        """The first scorer's model, where it is known without asking."""
        first = self.clients[0]
        return first.remote.args.label if isinstance(first, RemoteClient) else None

    def for_search(self, tenant: str, deadline: float) -> Score:
        return self._in_turn(
            deadline, RESERVE_S, lambda client, until: client.for_search(tenant, until)
        )

    def for_rerank(self, tenant: str, deadline: float, truncation: Truncation) -> Score:
        return self._in_turn(
            deadline, 0.0, lambda client, until: client.for_rerank(tenant, until, truncation)
        )

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    def _in_turn(
        self, deadline: float, reserve_s: float, scoring: Callable[[Client, float], Score]
    ) -> Score:
        """Return a scoring that asks in turn; each client keeps `reserve_s` for its caller."""

        async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
            *others, last = self.clients
            for client in others:
                half_s = left_s(deadline, reserve_s=reserve_s) / 2
                until = time.monotonic() + half_s + reserve_s
                try:
                    return await scoring(client, until)(query, pairs)
                except (Unavailable, DeadlineExceeded) as error:
                    logger.warning("%s; the next scorer is asked", error)
                    self.fallbacks_used += 1
            return await scoring(last, deadline)(query, pairs)

        return score


def make_scorers(args: AppArgs, handle: Handle | None, http: Http) -> Scorers | None:
    """Make the clients of the configured scorers; None where there is none."""
    if args.scorer is None:
        return None
    first: Client
    if isinstance(args.scorer, ScorerArgs):
        assert handle is not None  # the application binds a Scorer for a local one
        first = ScorerClient(handle, args.scorer.timeout_ms)
    else:
        first = RemoteClient(RemoteScorer(args.scorer, http))
    others = (RemoteClient(RemoteScorer(one, http)) for one in args.fallback)
    return Scorers([first, *others])


def thresholds_by_model(args: AppArgs) -> Mapping[str, Thresholds | None]:
    """Return the fallbacks' thresholds, by the model that their scores carry.

    The search's own thresholds are the first scorer's; a fallback's scores lie on another scale,
    and without thresholds of their own they are not graded.
    """
    return {one.label: thresholds_of(one) for one in args.fallback}


def thresholds_of(args: FallbackArgs) -> Thresholds | None:
    if args.correct_threshold is None or args.incorrect_threshold is None:
        return None
    return Thresholds(args.correct_threshold, args.incorrect_threshold)


def scorer_status(scorers: Scorers | None) -> dict[str, Any]:
    """What a Composer's status says of its scorers."""
    if scorers is None:
        return {"scorer_down": None, "model": None, "fallbacks_used": 0, "remote": []}
    remote = [client for client in scorers.clients if isinstance(client, RemoteClient)]
    return {
        "scorer_down": scorers.breaker.is_open,
        "model": scorers.model,
        "fallbacks_used": scorers.fallbacks_used,
        "remote": [
            {
                "model": client.remote.args.label,
                "down": client.breaker.is_open,
                "invalid_results": client.remote.invalid,
            }
            for client in remote
        ],
    }
