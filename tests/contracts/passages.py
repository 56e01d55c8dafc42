"""Chunks to write, and short ways to ask a store for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from deployments.stores.protocol import IndexedChunk, LegQuery, Store
from pipeline.documents import Chunk, CorpusKey, chunk_id
from pipeline.errors import NotFound
from pipeline.filters import parse_filter
from pipeline.legs import BM25, DENSE, LegHit
from pipeline.sources import SourceRules
from pipeline.vectors import Encoders

DOCS = CorpusKey("acme", "docs")
X, Y = [1, 0, 0], [0, 1, 0]

# Opens a store, of these encoders, on the data of one test.
OpenStore: TypeAlias = Callable[[Encoders], Store]


def passage(
    document: str,
    text: str = "word",
    vector: Sequence[float] | None = X,
    place: int = 0,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    source: str | None = None,
) -> IndexedChunk:
    chunk = Chunk(chunk_id(document, place), document, place, text, title, source, metadata or {})
    array = None if vector is None else np.array(vector, dtype=np.float32)
    return IndexedChunk(chunk, array, f"digest of {document}")


async def find_text(
    store: Store,
    text: str,
    k: int = 10,
    filter: object = None,
    corpus: CorpusKey = DOCS,
    sources: Sequence[SourceRules] = (),
) -> list[LegHit]:
    parsed = None if filter is None else parse_filter(filter)
    query = LegQuery(BM25, k, text=text, filter=parsed, sources=tuple(sources))
    return await store.search(corpus, query)


async def find_near(
    store: Store,
    vector: Sequence[float],
    k: int = 10,
    filter: object = None,
    corpus: CorpusKey = DOCS,
    sources: Sequence[SourceRules] = (),
) -> list[LegHit]:
    parsed = None if filter is None else parse_filter(filter)
    array = np.array(vector, dtype=np.float32)
    query = LegQuery(DENSE, k, vector=array, filter=parsed, sources=tuple(sources))
    return await store.search(corpus, query)


def ids(hits: Sequence[LegHit]) -> list[str]:
    return [hit.chunk.id for hit in hits]


async def assert_not_found(store: Store, corpus: CorpusKey) -> None:
    calls = [
        find_text(store, "word", corpus=corpus),
        find_near(store, X, corpus=corpus),
        store.fetch(corpus, "a"),
        store.digests(corpus, ["a"]),
        store.delete(corpus, ["a"]),
        store.documents(corpus, "", 10),
        store.size(corpus),
        store.drop(corpus),
    ]
    for call in calls:
        with pytest.raises(NotFound, match="no such corpus"):
            await call
