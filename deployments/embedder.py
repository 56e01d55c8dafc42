"""The Embedder deployment: a dense encoder, and a learned-sparse one where it is wanted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deployments.config import EmbedderArgs
from deployments.inference.dense_encoder import DenseEncoder
from deployments.inference.resolving import resolve_model
from deployments.inference.sessions import Device, threads_for
from deployments.inference.sparse_encoder import SparseEncoder
from deployments.logs import join_serve_log
from pipeline.vectors import Embedded, Encoders, SparseVector

# Documents are embedded in slices this small so that a query never waits for a whole ingest.
SLICE = 8

# What a slice waits for before it is embedded.
Turn: TypeAlias = AbstractAsyncContextManager[None]


class Embedder:
    """Turns texts into vectors: dense ones, normalised, and sparse ones beside them."""

    def __init__(self, args: EmbedderArgs) -> None:
        join_serve_log()
        self.encoder, self.sparse = load_encoders(args)
        self.encoders = Encoders(
            self.encoder.fingerprint, self.sparse.fingerprint if self.sparse else None
        )
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        # Whoever ingests takes turns, so that one slice of them all is ahead of a query.
        self.turn = asyncio.Semaphore(1)
        self.texts_embedded = 0

    async def embed_queries(self, queries: Sequence[str], passages: Sequence[str] = ()) -> Embedded:
        """Embed the wordings of one query, then what is to be searched for as a passage is."""
        asked = await self._run(self._encode_queries, queries, self.sparse)
        self.texts_embedded += len(queries)
        return joined(asked, await self._embed_documents(passages, self.sparse, nullcontext()))

    async def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """Embed texts to be stored: in slices, sorted by length so that a slice pads little."""
        return await self._embed_documents(texts, self.sparse, self.turn)

    async def embed_counted(
        self, texts: Sequence[str], as_queries: bool
    ) -> tuple[str, NDArray[np.float32], int]:
        """Embed texts as queries or as documents; return the dense model, its vectors and the
        tokens of it all."""
        loop = asyncio.get_running_loop()
        counting = loop.run_in_executor(None, self.encoder.count_tokens, texts)
        if as_queries:
            embedded = await self._run(self._encode_queries, texts, None)
            self.texts_embedded += len(texts)
        else:
            embedded = await self._embed_documents(texts, None, self.turn)
        return self.encoder.fingerprint, embedded.dense, sum(await counting)

    async def _embed_documents(
        self, texts: Sequence[str], sparse_encoder: SparseEncoder | None, turn: Turn
    ) -> Embedded:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        dense = np.zeros((len(texts), self.encoder.dimension), np.float32)
        sparse: dict[int, SparseVector] = {}
        for start in range(0, len(order), SLICE):
            rows = order[start : start + SLICE]
            slice_ = [texts[i] for i in rows]
            async with turn:
                part = await self._run(self._encode_documents, slice_, sparse_encoder)
            dense[rows] = part.dense
            sparse.update(zip(rows, part.sparse or (), strict=False))
        self.texts_embedded += len(texts)
        in_order = [sparse[i] for i in range(len(texts))] if sparse_encoder else None
        return Embedded(dense, in_order, self.encoders)

    async def _run(
        self,
        encode: Callable[[Sequence[str], SparseEncoder | None], Embedded],
        texts: Sequence[str],
        sparse: SparseEncoder | None,
    ) -> Embedded:
        return await asyncio.get_running_loop().run_in_executor(self.thread, encode, texts, sparse)

    def _encode_queries(self, texts: Sequence[str], sparse: SparseEncoder | None) -> Embedded:
        terms = sparse.encode_queries(texts) if sparse else None
        return Embedded(self.encoder.encode_queries(texts), terms, self.encoders)

    def _encode_documents(self, texts: Sequence[str], sparse: SparseEncoder | None) -> Embedded:
        terms = sparse.encode_documents(texts) if sparse else None
        return Embedded(self.encoder.encode_documents(texts), terms, self.encoders)

    async def describe(self) -> dict[str, Any]:
        return {"encoders": self.encoders, "dimension": self.encoder.dimension}

    async def ping(self) -> str:
        return self.encoder.fingerprint

    async def status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "model": self.encoders.dense,
            "sparse_model": self.encoders.sparse,
            "provider": self.encoder.provider,
            "texts_embedded": self.texts_embedded,
        }


def joined(first: Embedded, second: Embedded) -> Embedded:
    """Put the vectors of two lists of texts one behind the other."""
    sparse = None if first.sparse is None else [*first.sparse, *(second.sparse or ())]
    return Embedded(np.concatenate([first.dense, second.dense]), sparse, first.encoders)


def load_encoders(args: EmbedderArgs) -> tuple[DenseEncoder, SparseEncoder | None]:
    threads = threads_for(args.threads, args.num_cpus)
    device = Device(args.provider, threads, args.allow_cpu_fallback)
    dense = DenseEncoder.load(resolve_model(args.model), device)
    if args.sparse_model is None:
        return dense, None
    return dense, SparseEncoder.load(resolve_model(args.sparse_model), device)
