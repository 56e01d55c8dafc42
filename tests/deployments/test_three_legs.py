"""Embedder, Indexer and Retrieval together, on a server that speaks Qdrant's API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.config import ChunkingArgs, EmbedderArgs, IndexArgs
from deployments.embedder import Embedder
from deployments.indexer import Indexer
from deployments.legs import LegRequest, Legs
from deployments.retrieval import Retrieval
from pipeline.documents import CorpusKey, Document
from pipeline.filters import parse_filter
from pipeline.legs import Variant
from tests.contracts.qdrant_server import qdrant_server
from tests.deployments.handles import Response, ScriptedHandle

CORPUS = CorpusKey("t", "c")
TEXTS = {
    "berlin": "Berlin has a population of 3.5 million registered inhabitants.",
    "york": "New York City is famous for the Metropolitan Museum of Art.",
    "paris": "Paris lies on the river Seine.",
}


class Direct(ScriptedHandle):
    """Calls the methods of an object in this process."""

    method: Any

    def __init__(self, owner: Any) -> None:
        super().__init__()
        self.owner = owner

    def options(self, *, method_name: str, _by_reference: bool) -> Direct:
        chosen = Direct(self.owner)
        chosen.method = getattr(self.owner, method_name)
        return chosen

    def remote(self, *args: Any) -> Response:
        return Response(lambda: asyncio.ensure_future(self.method(*args)), self)


@pytest.fixture
def index() -> Iterator[IndexArgs]:
    with qdrant_server() as url:
        yield IndexArgs(engine="qdrant", uri=url)


async def test_a_query_is_answered_by_all_three_legs(index: IndexArgs) -> None:
    embedder: Any = Direct(
        Embedder(EmbedderArgs(provider="cpu", sparse_model="splade-tiny-msmarco"))
    )
    indexer = Indexer.__new__(Indexer)
    recorder = ScriptedHandle(*[None] * 9)
    await indexer.__init__(index, ChunkingArgs(), None, embedder, recorder)  # type: ignore[misc]
    documents = [
        Document(name, text, metadata={"letters": len(name)}) for name, text in TEXTS.items()
    ]
    assert {one.status for one in await indexer.put(CORPUS, documents)} == {"stored"}
    assert {one.status for one in await indexer.put(CORPUS, documents)} == {"unchanged"}

    request = LegRequest(CORPUS, parse_filter({"field": "letters", "gt": 4}), time.monotonic() + 60)
    retrieval: Any = Direct(Retrieval(index))
    legs = Legs(retrieval, embedder, request, timeout_ms=30_000, sparse=True)
    variants = await legs.embed([Variant(0, "original", "How many people live in Berlin?")])
    results = {one.leg: one for one in await legs.retrieve(variants, 5)}

    assert set(results) == {"dense", "bm25", "sparse"}
    assert [one.error for one in results.values()] == [None] * 3
    assert {one.hits[0].chunk.document_id for one in results.values()} == {"berlin"}
    assert len(results["dense"].hits) == 2
    await indexer.maintenance.close()
