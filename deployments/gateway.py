"""What the HTTP routes call: the other deployments behind their handles."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deployments.handles import Handle, broadcast, call
from deployments.inference.truncation import Truncation
from deployments.ranking import RerankAnswer
from pipeline.documents import CorpusKey, Document, PutResult
from pipeline.errors import InvalidInput, OnepassError
from tracker.ids import new_retrieval_id
from tracker.records import Outcome, PurgeCounts, Window

logger = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 600.0
TRACKER_TIMEOUT_S = 10.0
PING_TIMEOUT_S = 1.0
STATUS_TIMEOUT_S = 5.0
# What must have been up once before the application calls itself ready.
NEEDED = frozenset({"Composer", "Retrieval", "Scorer"})


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

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None: ...

    async def purge(self, tenant: str, before: datetime, dry_run: bool) -> dict[str, int]: ...

    async def report(
        self, name: str, window: Window, limit: int, offset: int
    ) -> list[dict[str, Any]]: ...

    async def status(self) -> dict[str, Any]: ...

    async def readiness(self) -> tuple[bool, list[str]]: ...


class ServeGateway:
    """The Gateway of the running application. `parts` maps a deployment's name to its handle."""

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
        (vectors, tokens), model = await asyncio.gather(
            call(embedder, "embed_counted", list(texts), as_queries, timeout_s=timeout_s),
            call(embedder, "ping", timeout_s=timeout_s),
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

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None:
        await call(
            self.parts["Recorder"],
            "feedback",
            tenant,
            retrieval_id,
            document_id,
            outcome,
            timeout_s=TRACKER_TIMEOUT_S,
            retry=True,
        )

    async def purge(self, tenant: str, before: datetime, dry_run: bool) -> dict[str, int]:
        counts: PurgeCounts = await call(
            self.parts["Recorder"], "purge", before, dry_run, tenant, timeout_s=WRITE_TIMEOUT_S
        )
        return dataclasses.asdict(counts)

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
            timeout_s=TRACKER_TIMEOUT_S,
            retry=True,
        )
        return rows

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
        by_name = dict(zip(names, answers, strict=True))
        recorder = first(by_name, "Recorder")
        return {
            "version": version("onepass"),
            "model": served_model(by_name),
            "providers": providers_of(by_name),
            "missing": [name for name, replicas in by_name.items() if not replicas],
            "counters": counters_of(by_name),
            "tracker": {k: v for k, v in recorder.items() if k != "retention"},
            "retention": recorder.get("retention"),
            "deployments": by_name,
        }

    async def _statuses(self, handle: Handle) -> list[dict[str, Any]]:
        try:
            replies = await broadcast(handle, "status", STATUS_TIMEOUT_S)
        except OnepassError as error:
            logger.warning("%s gave no status: %s", handle.deployment_name, error)
            return []
        return [reply for reply in replies if isinstance(reply, dict)]


Statuses = Mapping[str, Sequence[Mapping[str, Any]]]


def first(by_name: Statuses, name: str) -> Mapping[str, Any]:
    """The status of a part's first replica, empty if it has none."""
    return next(iter(by_name.get(name, ())), {})


def served_model(by_name: Statuses) -> str | None:
    """The first scorer's model: the deployment's, or a remote one's that the Composer calls."""
    statuses = (first(by_name, name) for name in ("Scorer", "Composer"))
    return next((status["model"] for status in statuses if status.get("model")), None)


def providers_of(by_name: Statuses) -> dict[str, list[str]]:
    """The ONNX Runtime providers really in use, by part."""
    return {
        name: sorted({status["provider"] for status in by_name[name]})
        for name in ("Scorer", "Embedder")
        if name in by_name
    }


def counters_of(by_name: Statuses) -> dict[str, Any]:
    """Sum what the Scorer and Composer replicas counted."""
    scorers = [status["counters"] for status in by_name.get("Scorer", [])]
    composers = by_name.get("Composer", [])

    def total(rows: Sequence[Mapping[str, Any]], name: str) -> int:
        return sum(row[name] for row in rows)

    tokens, padded = total(scorers, "tokens"), total(scorers, "padded_tokens")
    return {
        "searches": total(composers, "searches"),
        "degraded_searches": total(composers, "degraded_searches"),
        "pairs_requested": total(scorers, "pairs_requested"),
        "pairs_scored": total(scorers, "pairs_scored"),
        "pairs_reused": total(composers, "pairs_reused"),
        "pairs_cached": total(scorers, "pairs_cached"),
        "pairs_shared": total(scorers, "pairs_shared"),
        "pairs_failed": total(scorers, "pairs_failed"),
        "padding_ratio": round(1 - tokens / padded, 4) if padded else None,
        "records_dropped": total(composers, "records_dropped"),
    }
