"""What the HTTP routes call, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deployments.inference.truncation import Truncation
from deployments.ranking import RerankAnswer
from deployments.stores.protocol import CorpusSize
from pipeline.documents import Chunk, CorpusKey, Document, PutResult
from tracker.records import (
    Compacted,
    Outcome,
    RetrievalRecord,
    TrackedRetrieval,
    Window,
)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Normalised vectors (n, dimension) of texts, the model that made them, its tokens read."""

    model: str
    vectors: NDArray[np.float32]
    tokens: int


class Gateway(Protocol):
    """What the routes need; `remaining_ms` is the time that the request has left."""

    async def search(
        self, tenant: str, request: Mapping[str, Any], remaining_ms: float
    ) -> dict[str, Any]: ...

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer: ...

    async def embed(
        self, texts: Sequence[str], as_queries: bool, remaining_ms: float
    ) -> Embeddings: ...

    async def describe(self) -> dict[str, Any]: ...

    async def put(self, corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]: ...

    async def delete(self, corpus: CorpusKey, document_id: str) -> int: ...

    async def drop(self, corpus: CorpusKey) -> None: ...

    async def corpora(
        self, tenant: str, after: str, limit: int
    ) -> list[tuple[str, CorpusSize | None]]: ...

    async def size(self, corpus: CorpusKey) -> CorpusSize: ...

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]: ...

    async def document(self, corpus: CorpusKey, document_id: str) -> list[Chunk]: ...

    async def retrievals(
        self, window: Window, limit: int, after: tuple[datetime, str] | None
    ) -> list[RetrievalRecord]: ...

    async def retrieval(self, tenant: str, retrieval_id: str) -> TrackedRetrieval: ...

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None: ...

    async def purge(self, tenant: str, before: datetime, dry_run: bool) -> dict[str, int]: ...

    async def compact(self) -> Compacted: ...

    async def report(
        self, name: str, window: Window, limit: int, offset: int
    ) -> list[dict[str, Any]]: ...

    async def status(self) -> dict[str, Any]: ...

    async def readiness(self) -> tuple[bool, list[str]]: ...
