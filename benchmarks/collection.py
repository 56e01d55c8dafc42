"""A test collection in an index of its own, cut, embedded and searched as the application does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deployments.chunking import Chunker
from deployments.config import ChunkingArgs
from deployments.inference.dense_encoder import DenseEncoder
from deployments.stores.lance import LanceStore
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey, Document, chunk_id
from pipeline.legs import BM25, DENSE, LegResult, Variant

CORPUS = CorpusKey("benchmark", "quality")
DOCUMENTS_A_COMMIT = 256


@dataclass(frozen=True, slots=True)
class Collection:
    """An index, and the vectors of the queries that will be asked."""

    store: LanceStore
    vectors: Mapping[str, NDArray[np.float32]]

    async def embed(self, variants: Sequence[Variant]) -> tuple[Variant, ...]:
        return tuple(replace(one, vector=self.vectors[one.text]) for one in variants)

    async def search(
        self, legs: Sequence[str], variants: Sequence[Variant], depth: int
    ) -> list[LegResult]:
        return [
            LegResult(leg, variant.number, depth, tuple(await self.store.search(CORPUS, query)))
            for variant in variants
            for leg, query in queries_of(variant, depth).items()
            if leg in legs
        ]


def queries_of(variant: Variant, depth: int) -> dict[str, LegQuery]:
    return {
        DENSE: LegQuery(DENSE, depth, vector=variant.vector),
        BM25: LegQuery(BM25, depth, text=variant.text),
    }


async def index_documents(
    store: LanceStore,
    encoder: DenseEncoder,
    model: Path,
    corpus: Path,
    progress: Callable[[int], None],
) -> int:
    """Index a file of JSON lines with `id` (or `_id`), `title` and `text`; return the chunks.

    Chunks are sized by the tokens of the model in the folder `model`. `progress` is told of every
    group of documents.
    """
    chunker = Chunker(ChunkingArgs(), model)
    documents = list(read_documents(corpus))
    count = 0
    for start in range(0, len(documents), DOCUMENTS_A_COMMIT):
        group = documents[start : start + DOCUMENTS_A_COMMIT]
        chunks = [chunk for document in group for chunk in cut(document, chunker)]
        vectors = encoder.encode_documents([chunk.body for chunk in chunks])
        indexed = [
            IndexedChunk(chunk, vector, "") for chunk, vector in zip(chunks, vectors, strict=True)
        ]
        await store.upsert(CORPUS, indexed)
        count += len(chunks)
        progress(len(group))
    await store.optimise(CORPUS)
    return count


def read_documents(path: Path) -> Iterator[Document]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Document(row.get("_id") or row["id"], row["text"], row.get("title") or None)


def cut(document: Document, chunker: Chunker) -> Iterator[Chunk]:
    texts = chunker.chunks(document.text, document.title) or [document.text]
    for index, text in enumerate(texts):
        yield Chunk(chunk_id(document.id, index), document.id, index, text, document.title)
