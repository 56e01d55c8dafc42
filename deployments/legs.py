"""The legs of one request, as the pipeline sees them: a callable that takes a depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deployments.budget import left_s, leg_share_s
from deployments.handles import Handle, call
from deployments.stores.protocol import LegQuery
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound, OnepassError, Overloaded
from pipeline.filters import Filter
from pipeline.legs import BM25, DENSE, LegResult


@dataclass(frozen=True, slots=True)
class LegRequest:
    """What to retrieve; `deadline` is on the monotonic clock."""

    corpus: CorpusKey
    query: str
    filter: Filter | None
    deadline: float


class Legs:
    """Asks every leg for any depth with the one vector that `embed` made."""

    def __init__(
        self,
        retrieval: Handle,
        embedder: Handle | None,
        request: LegRequest,
        timeout_ms: int,
    ) -> None:
        self.retrieval = retrieval
        self.embedder = embedder
        self.request = request
        self.timeout_ms = timeout_ms
        self.vector: NDArray[np.float32] | None = None
        self.embed_error: str | None = None

    async def embed(self) -> None:
        """Embed the query, before anything is retrieved; a failure is the dense leg's."""
        if self.embedder is None:
            return
        try:
            vectors = await call(
                self.embedder,
                "embed_queries",
                [self.request.query],
                timeout_s=self._time_s(),
                retry=True,
            )
        except Overloaded:
            raise
        except OnepassError as error:
            self.embed_error = error.message
        else:
            self.vector = vectors[0]

    async def retrieve(self, depth: int) -> list[LegResult]:
        """Ask every leg for `depth` hits. A part that fails is a leg's error; NotFound, for a
        corpus that does not exist, and Overloaded are raised."""
        text = LegQuery(BM25, depth, text=self.request.query, filter=self.request.filter)
        if self.embedder is None:
            return await self._search([text])
        if self.vector is None:
            return [LegResult(DENSE, 0, depth, error=self.embed_error), *await self._search([text])]
        dense = LegQuery(DENSE, depth, vector=self.vector, filter=self.request.filter)
        return await self._search([dense, text])

    async def _search(self, queries: Sequence[LegQuery]) -> list[LegResult]:
        try:
            results: list[LegResult] = await call(
                self.retrieval,
                "search",
                self.request.corpus,
                [(0, query) for query in queries],
                timeout_s=self._time_s(),
                retry=True,
                tell_time=True,
            )
        except (NotFound, Overloaded):
            raise
        except OnepassError as error:
            return [LegResult(query.leg, 0, query.k, error=error.message) for query in queries]
        return results

    def _time_s(self) -> float:
        return leg_share_s(left_s(self.request.deadline), self.timeout_ms / 1e3)
