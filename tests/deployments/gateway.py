"""The routes over ASGI, with a gateway that records what reaches it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import httpx
import numpy as np

from deployments.config import AuthArgs, LimitsArgs
from deployments.gateway import Embeddings
from deployments.inference.truncation import Truncation
from deployments.ingress import create_api
from deployments.ranking import RankedText, RerankAnswer
from deployments.stores.protocol import CorpusSize
from pipeline.documents import Chunk, CorpusKey, Document, PutResult, chunk_id
from pipeline.scoring import Tally
from tests.records import record
from tracker.records import (
    Compacted,
    Feedback,
    Outcome,
    RetrievalRecord,
    TrackedRetrieval,
    Window,
)

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
LIMITS = LimitsArgs(body_bytes=20_000, query_chars=100, documents=5, text_bytes=1000)


class RecordingGateway:
    """Answers everything, and keeps what it was asked; `error` is raised instead if set."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.error: Exception | None = None
        self.ready = True

    def note(self, *call: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(call)

    async def search(
        self, tenant: str, request: Mapping[str, Any], remaining_ms: float
    ) -> dict[str, Any]:
        self.note("search", tenant, request, remaining_ms)
        return {"retrieval_id": "r", "hits": [], "timings_ms": {"retrieve": 1.25, "total": 2.0}}

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer:
        self.note("rerank", query, list(documents), truncation)
        ranked = [RankedText(i, 1 / (i + 2), None, i == 1, 9 + i) for i in range(len(documents))]
        tally = Tally(passes=len(documents), tokens=sum(one.tokens for one in ranked))
        return RerankAnswer("m", tuple(reversed(ranked)), (), tally)

    async def embed(
        self, texts: Sequence[str], as_queries: bool, remaining_ms: float
    ) -> Embeddings:
        self.note("embed", list(texts), as_queries)
        return Embeddings("e@1", np.full((len(texts), 2), 0.5, np.float32), 3 * len(texts))

    async def describe(self) -> dict[str, Any]:
        self.note("describe")
        return {"model": "m", "max_tokens": 512}

    async def put(self, corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]:
        self.note("put", corpus, list(documents))
        return [PutResult(d.id, "stored", 1) for d in documents]

    async def delete(self, corpus: CorpusKey, document_id: str) -> int:
        self.note("delete", corpus, document_id)
        return 0

    async def drop(self, corpus: CorpusKey) -> None:
        self.note("drop", corpus)

    async def corpora(
        self, tenant: str, after: str, limit: int
    ) -> list[tuple[str, CorpusSize | None]]:
        self.note("corpora", tenant, after, limit)
        sizes = [("a", CorpusSize(2, 5)), ("b", None), ("c", CorpusSize(0, 0))]
        return [(name, size) for name, size in sizes if name > after][:limit]

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        self.note("size", corpus)
        return CorpusSize(2, 5)

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]:
        self.note("documents", corpus, after, limit)
        titles = {"a": "A", "b/é.md": None, "c": "C"}
        return [(id, title) for id, title in titles.items() if id > after][:limit]

    async def document(self, corpus: CorpusKey, document_id: str) -> list[Chunk]:
        self.note("document", corpus, document_id)
        texts = [] if document_id == "unknown" else ["one", "two"]
        return [
            Chunk(chunk_id(document_id, n), document_id, n, text, "T", None, {"x": math.inf})
            for n, text in enumerate(texts)
        ]

    async def retrievals(
        self, window: Window, limit: int, after: tuple[datetime, str] | None
    ) -> list[RetrievalRecord]:
        self.note("retrievals", window, limit, after)
        stored = [record(retrieval_id=f"r{n}", at=AT, query=f"q{n}") for n in (3, 2, 1)]
        rest = [one for one in stored if after is None or one.retrieval_id < after[1]]
        return rest[:limit]

    async def retrieval(self, tenant: str, retrieval_id: str) -> TrackedRetrieval:
        self.note("retrieval", tenant, retrieval_id)
        judged = Feedback(retrieval_id, "a", "relevant", AT)
        one = record("a", "dropped", retrieval_id=retrieval_id, at=AT)
        return TrackedRetrieval(one, (judged,))

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None:
        self.note("feedback", retrieval_id, document_id, outcome)

    async def purge(self, tenant: str, before: datetime, dry_run: bool) -> dict[str, int]:
        self.note("purge", tenant, before, dry_run)
        return {"retrievals": 1, "hits": 2, "feedback": 0}

    async def compact(self) -> Compacted:
        self.note("compact")
        return Compacted(9, 4)

    async def report(
        self, name: str, window: Window, limit: int, offset: int
    ) -> list[dict[str, Any]]:
        self.note("report", name, window, limit, offset)
        return [{"at": AT, "relevance": math.nan}] * min(limit, 3)

    async def status(self) -> dict[str, Any]:
        return {"at": AT}

    async def readiness(self) -> tuple[bool, list[str]]:
        return self.ready, [] if self.ready else ["Scorer"]


def serving(
    gateway: RecordingGateway, *, auth: AuthArgs | None = None, host: str = "127.0.0.1"
) -> httpx.AsyncClient:
    app = create_api(gateway, LIMITS, auth or AuthArgs())
    transport = httpx.ASGITransport(app, client=(host, 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    assert error["request_id"] == response.headers["X-Request-Id"]
    assert response.headers["Server-Timing"].endswith(tuple("0123456789"))
    return response.status_code, error["type"], error["param"]
