"""The Indexer deployment: the one writer of the index."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deployments.chunking import make_chunker
from deployments.config import ChunkingArgs, IndexArgs
from deployments.handles import Handle, call
from deployments.index import open_index
from deployments.inference.resolving import resolve_model
from deployments.logs import join_serve_log
from deployments.maintenance import Maintenance
from deployments.stores.protocol import IndexedChunk
from pipeline.documents import Chunk, CorpusKey, Document, PutResult, chunk_id
from pipeline.errors import NotFound, OnepassError
from pipeline.stamps import digest

logger = logging.getLogger(__name__)

T = TypeVar("T")

# One commit and one embedding call hold at most this many chunks: memory stays bounded.
CHUNKS_A_COMMIT = 256
EMBED_TIMEOUT_S = 300.0
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
    ) -> None:
        join_serve_log()
        self.embedder = embedder
        self.recorder = recorder
        described: Mapping[str, Any] = (
            await call(embedder, "describe", timeout_s=EMBED_TIMEOUT_S) if embedder else {}
        )
        self.store = open_index(index, dimension=described.get("dimension"), read_only=False)
        folder = (
            await asyncio.to_thread(resolve_model, tokenizer_model) if tokenizer_model else None
        )
        self.chunker = make_chunker(chunking, folder / "tokenizer.json" if folder else None)
        # A document is unchanged only if it would be indexed the same way again.
        self.recipe = json.dumps([chunking.model_dump(), described.get("model")])
        # Embedding of several requests overlaps; only their commits come one after another.
        self.writing = asyncio.Lock()
        self.maintenance = Maintenance(self._optimise)
        self.maintenance.start()
        self.telling = asyncio.Lock()
        self.commits: set[asyncio.Task[Any]] = set()
        self.untold: deque[tuple[Any, ...]] = deque(maxlen=MAX_UNTOLD)

    async def put(self, corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]:
        """Upsert documents; one result each, in order."""
        stored = await self._digests(corpus, [document.id for document in documents])
        digests = {document.id: self._digest(document) for document in documents}
        changed = [d for d in documents if stored.get(d.id) != digests[d.id]]
        results = {document.id: PutResult(document.id, "unchanged") for document in documents}
        cut = await asyncio.to_thread(lambda: [(d, self._cut(d)) for d in changed])
        for group in grouped(cut):
            results.update(await self._write(corpus, group, digests))
        await self._tell_tracker()
        return [results[document.id] for document in documents]

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
        texts = document.chunks or self.chunker.chunks(document.text) or [document.text]
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
                IndexedChunk(chunk, vector, digests[chunk.document_id])
                for chunk, vector in zip(chunks, vectors, strict=True)
            ]
            titles = [(document.id, document.title) for document, _ in group]
            await self._whole(self._store(corpus, rows, titles))
        except OnepassError as error:
            logger.warning("%d documents were not stored: %s", len(group), error)
            failed = [PutResult(one.id, "failed", error=error.message) for one, _ in group]
            return {result.id: result for result in failed}
        return {
            document.id: PutResult(document.id, "stored", len(document_chunks))
            for document, document_chunks in group
        }

    async def _embed(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32] | None]:
        if self.embedder is None or not texts:
            return [None] * len(texts)
        vectors: NDArray[np.float32] = await call(
            self.embedder,
            "embed_documents",
            list(texts),
            timeout_s=EMBED_TIMEOUT_S,
            retry=True,
        )
        return list(vectors)

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
