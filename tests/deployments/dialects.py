"""The same ranking asked for in every dialect, on a gateway that really ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import httpx

from deployments.config import AuthArgs, LimitsArgs
from deployments.inference.truncation import Truncation
from deployments.ingress import create_api
from deployments.ranking import RerankAnswer, rerank_texts
from tests.deployments.gateway import RecordingGateway
from tests.fakes import CountingScorer

Body = dict[str, Any]


class Dialect(NamedTuple):
    """How a route is asked to rank texts, and where its answer has (index, score)."""

    path: str
    texts: str
    body: Callable[[str, Sequence[Any]], Body]
    read: Callable[[Any], list[tuple[int, float]]]


def documents_body(query: str, texts: Sequence[Any]) -> Body:
    return {"query": query, "documents": list(texts)}


def texts_body(query: str, texts: Sequence[Any]) -> Body:
    return {"query": query, "texts": list(texts), "truncate": True}


def nim_body(query: str, texts: Sequence[Any]) -> Body:
    passages = [{"text": text} for text in texts]
    return {"query": {"text": query}, "passages": passages, "truncate": "END"}


def score_body(query: str, texts: Sequence[Any]) -> Body:
    return {"text_1": query, "text_2": list(texts)}


def read_results(answer: Any) -> list[tuple[int, float]]:
    return [(one["index"], one["relevance_score"]) for one in answer["results"]]


def read_tei(answer: Any) -> list[tuple[int, float]]:
    return [(one["index"], one["score"]) for one in answer]


def read_nim(answer: Any) -> list[tuple[int, float]]:
    return [(one["index"], one["logit"]) for one in answer["rankings"]]


def read_score(answer: Any) -> list[tuple[int, float]]:
    return [(one["index"], one["score"]) for one in answer["data"]]


DIALECTS = [
    Dialect("/v1/rerank", "documents", documents_body, read_results),
    Dialect("/v2/rerank", "documents", documents_body, read_results),
    Dialect("/rerank", "documents", documents_body, read_results),
    Dialect("/rerank", "texts", texts_body, read_tei),
    Dialect("/v1/ranking", "passages", nim_body, read_nim),
    Dialect("/score", "text_2", score_body, read_score),
    Dialect("/v1/score", "text_2", score_body, read_score),
]


class RankingGateway(RecordingGateway):
    """Ranks by a table of logits, after a delay; a text that is not in it cannot be scored."""

    def __init__(self, logits: Mapping[str, float]) -> None:
        super().__init__()
        self.scorer = CountingScorer(logits)
        self.delay_s = 0.0

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer:
        self.note("rerank", query, list(documents), truncation)
        await asyncio.sleep(self.delay_s)
        return await rerank_texts(query, documents, self.scorer)


def serving_defaults(gateway: RecordingGateway) -> httpx.AsyncClient:
    """The routes with the limits that are the default."""
    app = create_api(gateway, LimitsArgs(), AuthArgs())
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")
