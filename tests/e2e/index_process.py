"""One process on an index that several share: python -m tests.e2e.index_process PLACE ROLE …

PLACE is JSON: the index's URI and its storage options. Every version of the document `counter`
has another number of chunks, all of which say its name.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from deployments.stores import lance_indexes
from deployments.stores.lance import LanceStore
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey, chunk_id
from pipeline.errors import Unavailable
from pipeline.legs import BM25, DENSE

CORPUS = CorpusKey("acme", "shared")
VECTOR = np.eye(8, dtype=np.float32)[0]


def open_place(uri: str, options: Mapping[str, str], read_only: bool = False) -> LanceStore:
    return LanceStore(uri, 8, options, read_only, ann_min_rows=1)


async def step(store: LanceStore, name: str) -> None:
    """Write a version for each line, and say so."""
    for number, _ in enumerate(sys.stdin):
        await write_version(store, name, number)


async def write(store: LanceStore, name: str, first: str, end: str = "") -> None:
    """Write version after version, and say so."""
    for number in range(int(first), int(end)) if end else itertools.count(int(first)):
        await write_version(store, name, number)


async def tend(store: LanceStore) -> None:
    """Bring the indexes up to date, again and again, until the input ends."""
    lance_indexes.COLUMN_INDEX_ROWS = 1
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not ended.done():
        with suppress(Unavailable):  # the corpus changed at every try
            await store.optimise(CORPUS)
        await asyncio.sleep(0.01)


async def read(store: LanceStore) -> None:
    """Say for each line what there is."""
    for _ in sys.stdin:
        print(json.dumps(await found(store)), flush=True)


async def follow(store: LanceStore) -> None:
    """Look again and again until the input ends, then say what was seen, in order."""
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    seen: list[list[str]] = []
    while not ended.done():
        for leg in (BM25, DENSE):
            texts = await texts_of(store, leg)
            if not seen or texts != seen[-1]:
                seen.append(texts)
    print(json.dumps(seen), flush=True)


async def write_version(store: LanceStore, name: str, number: int) -> None:
    await store.upsert(CORPUS, list(version(name, number)))
    print(number, flush=True)


def version(name: str, number: int) -> Iterator[IndexedChunk]:
    for place in range(1 + number % 3):
        text = f"word {name}{number}"
        yield IndexedChunk(Chunk(chunk_id("counter", place), "counter", place, text), VECTOR, "")
    own = f"{name}{number}"
    yield IndexedChunk(Chunk(chunk_id(own, 0), own, 0, "other"), None, "")


async def found(store: LanceStore) -> tuple[list[str], list[str], int]:
    size = await store.size(CORPUS)
    return await texts_of(store, BM25), await texts_of(store, DENSE), size.documents


async def texts_of(store: LanceStore, leg: str) -> list[str]:
    hits = await store.search(CORPUS, LegQuery(leg, 10, text="word", vector=VECTOR))
    return [hit.chunk.text for hit in hits]


ROLES: Mapping[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "step": step,
    "write": write,
    "tend": tend,
    "read": read,
    "follow": follow,
}

if __name__ == "__main__":
    place, role, *arguments = sys.argv[1:]
    asyncio.run(ROLES[role](open_place(*json.loads(place)), *arguments))
