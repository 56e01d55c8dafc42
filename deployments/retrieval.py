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
from deployments.stores.protocol import CorpusSize, LegQuery
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import InvalidInput, NotFound, OnepassError
from pipeline.legs import LegResult

logger = logging.getLogger(__name__)

# Counting a corpus reads a column of it through.
COUNTED_AT_ONCE = 4


class Retrieval:
    """Answers legs in parallel, each with its own timeout; a leg's failure is data."""

    def __init__(self, args: IndexArgs) -> None:
        join_serve_log()
        self.store = open_index(args, read_only=True)
        self.searches = self.failed_legs = 0

    async def search(
        self, corpus: CorpusKey, queries: Sequence[tuple[int, LegQuery]], timeout_ms: float
    ) -> list[LegResult]:
        """Answer each (variant, query). Raises NotFound for a corpus that does not exist, and
        InvalidInput for what the engine cannot be asked."""
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
        except (InvalidInput, NotFound):
            raise
        except (OnepassError, asyncio.TimeoutError) as error:
            self.failed_legs += 1
            reason = str(error) or "timed out"
            logger.warning("leg %s failed: %s", query.leg, reason)
            return LegResult(query.leg, variant, query.k, error=reason)
        return LegResult(query.leg, variant, query.k, tuple(hits))

    async def corpora(
        self, tenant: str, after: str, limit: int
    ) -> list[tuple[str, CorpusSize | None]]:
        """Return the first `limit` corpora behind the name `after`, by name; None for the size
        of one that could not be counted."""
        names = [name for name in await self.store.corpora(tenant) if name > after][:limit]
        slots = asyncio.Semaphore(COUNTED_AT_ONCE)
        keys = [CorpusKey(tenant, name) for name in names]
        sizes = await asyncio.gather(*(self._size_if_countable(key, slots) for key in keys))
        return list(zip(names, sizes, strict=True))

    async def _size_if_countable(
        self, corpus: CorpusKey, slots: asyncio.Semaphore
    ) -> CorpusSize | None:
        try:
            async with slots:
                return await self.store.size(corpus)
        except OnepassError as error:  # dropped meanwhile, or damaged: that hides no other
            logger.warning("corpus %s was not counted: %s", corpus.name, error)
            return None

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        """Count a corpus. Raises NotFound for one that does not exist."""
        return await self.store.size(corpus)

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]:
        """Return the first `limit` documents behind the id `after`, as id and title, by id."""
        return await self.store.documents(corpus, after, limit)

    async def document(self, corpus: CorpusKey, document_id: str) -> list[Chunk]:
        """Return a document's chunks in order; none if there is no such document."""
        return await self.store.fetch(corpus, document_id)

    async def ping(self) -> bool:
        return True

    async def status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "searches": self.searches,
            "failed_legs": self.failed_legs,
        }
