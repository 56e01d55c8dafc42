"""The Indexer deployment: the one writer of the index."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from deployments.chunking import Chunker
from deployments.config import ChunkingArgs, IndexArgs
from deployments.handles import Handle, call
from deployments.index import open_index
from deployments.inference.resolving import resolve_model
from deployments.logs import join_serve_log
from deployments.maintenance import Maintenance
from deployments.stores.protocol import IndexedChunk
from pipeline.documents import Chunk, CorpusKey, Document, PutResult, chunk_id
from pipeline.errors import NotFound, OnepassError, Overloaded
from pipeline.stamps import digest
from pipeline.vectors import NO_ENCODERS, Embedded, Encoders, SparseVector

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A text's dense vector (dimension,) and its sparse one, None where there is no such model.
Vectors: TypeAlias = tuple[NDArray[np.float32] | None, SparseVector | None]

# One commit holds at most this many chunks, but for a larger document, which is whole or not there.
CHUNKS_A_COMMIT = 256
# What is embedded at once, for all requests together: enough for several replicas, and little
# enough for a slow one to be done in time.
CHUNKS_A_CALL = 64
CALLS_AT_ONCE = 8
EMBED_TIMEOUT_S = 300.0
# Text of all the documents that requests have handed over and that are not stored yet: memory
# stays bounded, however many clients there are. Beyond it they are asked to come back.
MAX_CHARACTERS = 32 * 2**20
RETRY_AFTER_S = 5
TRACKER_TIMEOUT_S = 2.0
# Writes that the tracker may still have to hear of; beyond it the oldest are forgotten.
MAX_UNTOLD = 1_000


class Indexer:
    """Chunk, embed, upsert, commit, answer. What it acknowledges, every later search sees."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        index: IndexArgs,
        chunking: ChunkingArgs,
        tokenizer_model: str | None,
        embedder: Handle | None,
        recorder: Handle,
        window: int | None = None,
    ) -> None:
        """`window` is that of the model whose tokens size the chunks, where it is not its own."""
        join_serve_log()
        self.embedder = embedder
        self.recorder = recorder
        described: Mapping[str, Any] = (
            await call(embedder, "describe", timeout_s=EMBED_TIMEOUT_S) if embedder else {}
        )
        encoders: Encoders = described.get("encoders", NO_ENCODERS)
        self.store = open_index(
            index, dimension=described.get("dimension"), encoders=encoders, read_only=False
        )
        folder = (
            await asyncio.to_thread(resolve_model, tokenizer_model) if tokenizer_model else None
        )
        self.chunker = Chunker(chunking, folder, window)
        # A document is unchanged only if it would be indexed the same way again.
        sparse = [encoders.sparse] if encoders.sparse else []
        self.recipe = json.dumps([self.chunker.recipe, encoders.dense, *sparse])
        self.characters = 0
        self.embedding = asyncio.Semaphore(CALLS_AT_ONCE)
        # Embedding of several requests overlaps; only their commits come one after another.
        self.writing = asyncio.Lock()
        self.maintenance = Maintenance(self._optimise)
        self.maintenance.start()
        self.telling = asyncio.Lock()
        self.commits: set[asyncio.Task[Any]] = set()
        self.untold: deque[tuple[Any, ...]] = deque(maxlen=MAX_UNTOLD)

    async def put(self, corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]:
        """Upsert documents; one result each, in order. Raises Overloaded for too many."""
        with self._room(documents):
            results = await self._put(corpus, documents)
        await self._tell_tracker()
        return results

    async def _put(self, corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]:
        stored = await self._digests(corpus, [document.id for document in documents])
        digests = {document.id: self._digest(document) for document in documents}
        changed = [d for d in documents if stored.get(d.id) != digests[d.id]]
        results = {document.id: PutResult(document.id, "unchanged") for document in documents}
        cut = await asyncio.to_thread(lambda: [(d, self._cut(d)) for d in changed])
        for written in await asyncio.gather(
            *(self._write(corpus, group, digests) for group in grouped(cut))
        ):
            results.update(written)
        return [results[document.id] for document in documents]

    @contextmanager
    def _room(self, documents: Sequence[Document]) -> Iterator[None]:
        """Hold documents that fit beside those in hand; alone, any number of them does."""
        size = sum(map(characters_of, documents))
        if self.characters and self.characters + size > MAX_CHARACTERS:
            raise Overloaded(
                "as many documents are being stored as there is room for",
                retry_after_s=RETRY_AFTER_S,
            )
        self.characters += size
        try:
            yield
        finally:
            self.characters -= size

    async def delete(self, corpus: CorpusKey, document_ids: Sequence[str]) -> int:
        """Delete documents; return how many there were."""
        deleted: int = await self._whole(self._remove(corpus, list(document_ids)))
        await self._tell_tracker()
        return deleted

    async def drop(self, corpus: CorpusKey) -> None:
        """Delete a corpus with everything in it. Raises NotFound if there is none."""
        await self._whole(self._drop(corpus))
        await self._tell_tracker()

    async def _whole(self, commit: Coroutine[Any, Any, T]) -> T:
        """Await a commit that goes on to its end even if the client leaves: what is committed
        is also noted."""
        task = asyncio.get_running_loop().create_task(commit)
        self.commits.add(task)
        task.add_done_callback(self.commits.discard)
        return await asyncio.shield(task)

    async def _store(
        self, corpus: CorpusKey, rows: Sequence[IndexedChunk], titles: list[tuple[str, str | None]]
    ) -> None:
        async with self.writing:
            await self.store.upsert(corpus, rows)
        self._note("record_documents", corpus, titles)

    async def _remove(self, corpus: CorpusKey, document_ids: list[str]) -> int:
        async with self.writing:
            deleted = await self.store.delete(corpus, document_ids)
        self._note("delete_documents", corpus, document_ids)
        return deleted

    async def _drop(self, corpus: CorpusKey) -> None:
        async with self.writing:
            await self.store.drop(corpus)
        self.untold.append(("delete_corpus", corpus, datetime.now(timezone.utc)))

    def _note(self, method: str, corpus: CorpusKey, documents: list[Any]) -> None:
        """Remember a commit for the index's maintenance and for the tracker."""
        self.maintenance.written(corpus)
        self.untold.append((method, corpus, documents, datetime.now(timezone.utc)))

    def check_health(self) -> None:
        """Serve replaces a replica for which this raises."""
        if not self.maintenance.is_alive:
            raise RuntimeError("the index's maintenance has ended")

    async def _optimise(self, corpus: CorpusKey) -> None:
        # The engine would refuse one of two commits that touch the same rows.
        async with self.writing:
            with suppress(NotFound):  # dropped since it was written to
                await self.store.optimise(corpus)

    async def ping(self) -> bool:
        return True

    async def status(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "maintenance_rounds": self.maintenance.rounds}

    def _digest(self, document: Document) -> str:
        return digest(self.recipe, json.dumps(asdict(document), sort_keys=True, default=str))

    async def _digests(self, corpus: CorpusKey, ids: Sequence[str]) -> Mapping[str, str]:
        try:
            return await self.store.digests(corpus, ids)
        except NotFound:
            return {}

    def _cut(self, document: Document) -> list[Chunk]:
        # A text of nothing but invisible characters has no chunks, and is still a document.
        texts = document.chunks or self.chunker.chunks(document.text, document.title)
        texts = texts or [document.text]
        return [
            Chunk(
                id=chunk_id(document.id, index),
                document_id=document.id,
                chunk_index=index,
                text=text,
                title=document.title,
                source=document.source,
                metadata=document.metadata,
            )
            for index, text in enumerate(texts)
        ]

    async def _write(
        self,
        corpus: CorpusKey,
        group: Sequence[tuple[Document, list[Chunk]]],
        digests: Mapping[str, str],
    ) -> dict[str, PutResult]:
        """Embed and commit a group of documents; a failure is theirs alone."""
        chunks = [chunk for _, document_chunks in group for chunk in document_chunks]
        try:
            vectors = await self._embed([chunk.body for chunk in chunks])
            rows = [
                IndexedChunk(chunk, dense, digests[chunk.document_id], sparse)
                for chunk, (dense, sparse) in zip(chunks, vectors, strict=True)
            ]
            titles = [(document.id, document.title) for document, _ in group]
            await self._whole(self._store(corpus, rows, titles))
        except OnepassError as error:
            if error.param == "corpus":  # which can take none of the documents of the request
                raise
            logger.warning("%d documents were not stored: %s", len(group), error)
            failed = [PutResult(one.id, "failed", error=error.message) for one, _ in group]
            return {result.id: result for result in failed}
        return {
            document.id: PutResult(document.id, "stored", len(document_chunks))
            for document, document_chunks in group
        }

    async def _embed(self, texts: Sequence[str]) -> list[Vectors]:
        if self.embedder is None or not texts:
            return [(None, None)] * len(texts)
        starts = range(0, len(texts), CHUNKS_A_CALL)
        calls = (
            self._call(self.embedder, texts[start : start + CHUNKS_A_CALL]) for start in starts
        )
        return [vector for vectors in await asyncio.gather(*calls) for vector in vectors]

    async def _call(self, embedder: Handle, texts: Sequence[str]) -> list[Vectors]:
        async with self.embedding:
            embedded: Embedded = await call(
                embedder,
                "embed_documents",
                list(texts),
                timeout_s=EMBED_TIMEOUT_S,
                retry=True,
            )
        return list(embedded.rows)

    async def _tell_tracker(self) -> None:
        """Let the tracker know which documents exist, in the order of the writes.

        Its failure does not undo a write; what it was not told, it is told after the next one.
        """
        async with self.telling:
            while self.untold:
                entry = self.untold[0]
                method, *args = entry
                try:
                    await call(
                        self.recorder, method, *args, timeout_s=TRACKER_TIMEOUT_S, retry=True
                    )
                except OnepassError as error:
                    logger.warning("the tracker was not told of documents: %s", error)
                    return
                if self.untold and self.untold[0] is entry:  # not forgotten meanwhile
                    self.untold.popleft()


def characters_of(document: Document) -> int:
    return len(document.text) + sum(map(len, document.chunks or ()))


def grouped(
    cut: Sequence[tuple[Document, list[Chunk]]],
) -> Iterator[list[tuple[Document, list[Chunk]]]]:
    """Yield runs of whole documents of at most CHUNKS_A_COMMIT chunks, or one larger document."""
    group: list[tuple[Document, list[Chunk]]] = []
    size = 0
    for document, chunks in cut:
        if group and size + len(chunks) > CHUNKS_A_COMMIT:
            yield group
            group, size = [], 0
        group.append((document, chunks))
        size += len(chunks)
    if group:
        yield group
