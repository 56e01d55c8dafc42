"""The Gateway of the running application: the other deployments behind their handles."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from deployments.gateway import Embeddings
from deployments.handles import Handle, broadcast, call
from deployments.inference.truncation import Truncation
from deployments.ranking import RerankAnswer
from deployments.status import summary
from deployments.stores.protocol import CorpusSize
from pipeline.documents import Chunk, CorpusKey, Document, PutResult
from pipeline.errors import InvalidInput, OnepassError
from tracker.ids import new_retrieval_id
from tracker.records import (
    Compacted,
    Outcome,
    PurgeCounts,
    RetrievalRecord,
    Scope,
    TrackedRetrieval,
    Window,
)

logger = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 600.0
INDEX_TIMEOUT_S = 30.0
TRACKER_TIMEOUT_S = 10.0
REPORT_TIMEOUT_S = 30.0
PING_TIMEOUT_S = 1.0
STATUS_TIMEOUT_S = 5.0
# What must have been up once before the application calls itself ready.
NEEDED = frozenset({"Composer", "Retrieval", "Scorer"})


class ServeGateway:
    """A Gateway. `parts` maps a deployment's name to its handle."""

    def __init__(self, parts: Mapping[str, Handle]) -> None:
        self.parts = parts
        self.was_ready = False

    async def search(
        self, tenant: str, request: Mapping[str, Any], remaining_ms: float
    ) -> dict[str, Any]:
        # Made here, so that a call that has to be repeated is recorded once.
        retrieval_id = new_retrieval_id()
        answer: dict[str, Any] = await call(
            self.parts["Composer"],
            "search",
            tenant,
            retrieval_id,
            request,
            timeout_s=remaining_ms / 1e3,
            retry=True,
            tell_time=True,
        )
        return answer

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer:
        answer: RerankAnswer = await call(
            self.parts["Composer"],
            "rerank",
            tenant,
            query,
            list(documents),
            truncation,
            timeout_s=remaining_ms / 1e3,
            retry=True,
            tell_time=True,
        )
        return answer

    async def embed(
        self, texts: Sequence[str], as_queries: bool, remaining_ms: float
    ) -> Embeddings:
        """Raises InvalidInput where there is no embedder."""
        if "Embedder" not in self.parts:
            raise InvalidInput("embedding needs an embedder, and none is configured")
        embedder, timeout_s = self.parts["Embedder"], remaining_ms / 1e3
        model, vectors, tokens = await call(
            embedder, "embed_counted", list(texts), as_queries, timeout_s=timeout_s
        )
        return Embeddings(model, vectors, tokens)

    async def describe(self) -> dict[str, Any]:
        """The model that scores, and its window in tokens."""
        described: dict[str, Any] = await call(
            self.parts["Composer"], "describe", timeout_s=PING_TIMEOUT_S, retry=True
        )
        return described

    async def put(self, corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]:
        results: list[PutResult] = await call(
            self.parts["Indexer"],
            "put",
            corpus,
            list(documents),
            timeout_s=WRITE_TIMEOUT_S,
            retry=True,
        )
        return results

    async def delete(self, corpus: CorpusKey, document_id: str) -> int:
        deleted: int = await call(
            self.parts["Indexer"], "delete", corpus, [document_id], timeout_s=WRITE_TIMEOUT_S
        )
        return deleted

    async def drop(self, corpus: CorpusKey) -> None:
        await call(self.parts["Indexer"], "drop", corpus, timeout_s=WRITE_TIMEOUT_S)

    async def corpora(
        self, tenant: str, after: str, limit: int
    ) -> list[tuple[str, CorpusSize | None]]:
        corpora: list[tuple[str, CorpusSize | None]] = await self._read_index(
            "corpora", tenant, after, limit
        )
        return corpora

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        size: CorpusSize = await self._read_index("size", corpus)
        return size

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]:
        documents: list[tuple[str, str | None]] = await self._read_index(
            "documents", corpus, after, limit
        )
        return documents

    async def document(self, corpus: CorpusKey, document_id: str) -> list[Chunk]:
        chunks: list[Chunk] = await self._read_index("document", corpus, document_id)
        return chunks

    async def retrievals(
        self, window: Window, limit: int, after: tuple[datetime, str] | None
    ) -> list[RetrievalRecord]:
        records: list[RetrievalRecord] = await self._ask_tracker("retrievals", window, limit, after)
        return records

    async def retrieval(self, tenant: str, retrieval_id: str) -> TrackedRetrieval:
        found: TrackedRetrieval = await self._ask_tracker("retrieval", tenant, retrieval_id)
        return found

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None:
        await self._ask_tracker("feedback", tenant, retrieval_id, document_id, outcome)

    async def purge(self, tenant: str, before: datetime, dry_run: bool) -> dict[str, int]:
        counts: PurgeCounts = await call(
            self.parts["Recorder"],
            "purge",
            before,
            dry_run,
            Scope(tenant),
            timeout_s=WRITE_TIMEOUT_S,
        )
        return dataclasses.asdict(counts)

    async def compact(self) -> Compacted:
        compacted: Compacted = await call(
            self.parts["Recorder"], "compact", timeout_s=WRITE_TIMEOUT_S
        )
        return compacted

    async def report(
        self, name: str, window: Window, limit: int, offset: int
    ) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await call(
            self.parts["Recorder"],
            "report",
            name,
            window,
            limit,
            offset,
            timeout_s=REPORT_TIMEOUT_S,
            retry=True,
            tell_time=True,
        )
        return rows

    async def _read_index(self, method: str, *args: Any) -> Any:
        return await call(
            self.parts["Retrieval"], method, *args, timeout_s=INDEX_TIMEOUT_S, retry=True
        )

    async def _ask_tracker(self, method: str, *args: Any) -> Any:
        return await call(
            self.parts["Recorder"], method, *args, timeout_s=TRACKER_TIMEOUT_S, retry=True
        )

    async def readiness(self) -> tuple[bool, list[str]]:
        """Return whether searches have been answerable since the start, and which parts are
        down. The Scorer is up once it scored a real pair; a search can do without the others."""
        names = list(self.parts)
        alive = await asyncio.gather(*(self._ping(self.parts[name]) for name in names))
        down = [name for name, up in zip(names, alive, strict=True) if not up]
        self.was_ready = self.was_ready or not NEEDED.intersection(down)
        return self.was_ready, down

    async def _ping(self, handle: Handle) -> bool:
        try:
            await call(handle, "ping", timeout_s=PING_TIMEOUT_S)
        except OnepassError:
            return False
        return True

    async def status(self) -> dict[str, Any]:
        """Sum the counters over replicas; a part that does not answer is named."""
        names = list(self.parts)
        answers = await asyncio.gather(*(self._statuses(self.parts[name]) for name in names))
        return summary(dict(zip(names, answers, strict=True)))

    async def _statuses(self, handle: Handle) -> list[dict[str, Any]]:
        try:
            replies = await broadcast(handle, "status", STATUS_TIMEOUT_S)
        except OnepassError as error:
            logger.warning("%s gave no status: %s", handle.deployment_name, error)
            return []
        return [reply for reply in replies if isinstance(reply, dict)]
