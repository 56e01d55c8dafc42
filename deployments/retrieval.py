"""The Retrieval deployment: stateless readers of the index."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import Any

from deployments.config import IndexArgs
from deployments.index import open_index
from deployments.logs import join_serve_log
from deployments.stores.protocol import LegQuery
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound, OnepassError
from pipeline.legs import LegResult

logger = logging.getLogger(__name__)


class Retrieval:
    """Answers legs in parallel, each with its own timeout; a leg's failure is data."""

    def __init__(self, args: IndexArgs) -> None:
        join_serve_log()
        self.store = open_index(args, dimension=None, read_only=True)
        self.searches = self.failed_legs = 0

    async def search(
        self, corpus: CorpusKey, queries: Sequence[tuple[int, LegQuery]], timeout_ms: float
    ) -> list[LegResult]:
        """Answer each (variant, query). Raises NotFound for a corpus that does not exist."""
        self.searches += 1
        return list(
            await asyncio.gather(
                *(self._leg(corpus, variant, query, timeout_ms) for variant, query in queries)
            )
        )

    async def _leg(
        self, corpus: CorpusKey, variant: int, query: LegQuery, timeout_ms: float
    ) -> LegResult:
        try:
            hits = await asyncio.wait_for(self.store.search(corpus, query), timeout_ms / 1e3)
        except NotFound:
            raise
        except (OnepassError, asyncio.TimeoutError) as error:
            self.failed_legs += 1
            reason = str(error) or "timed out"
            logger.warning("leg %s failed: %s", query.leg, reason)
            return LegResult(query.leg, variant, query.k, error=reason)
        return LegResult(query.leg, variant, query.k, tuple(hits))

    async def ping(self) -> bool:
        return True

    async def status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "searches": self.searches,
            "failed_legs": self.failed_legs,
        }
