"""The Embedder deployment: one dense encoder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deployments.config import EmbedderArgs
from deployments.inference.dense_encoder import DenseEncoder
from deployments.inference.resolving import resolve_model
from deployments.inference.sessions import Device, threads_for
from deployments.logs import join_serve_log

# Documents are embedded in slices this small so that a query never waits for a whole ingest.
SLICE = 8


class Embedder:
    """Turns texts into normalised vectors of shape (n, dimension), float32."""

    def __init__(self, args: EmbedderArgs) -> None:
        join_serve_log()
        self.encoder = load_encoder(args)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        self.texts_embedded = 0

    async def embed_queries(
        self, queries: Sequence[str], passages: Sequence[str] = ()
    ) -> NDArray[np.float32]:
        """Embed the wordings of one query, then what is to be searched for as a passage is."""
        loop = asyncio.get_running_loop()
        vectors = await loop.run_in_executor(self.thread, self.encoder.encode_queries, queries)
        self.texts_embedded += len(queries)
        return np.concatenate([vectors, await self.embed_documents(passages)])

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts in slices, sorted by length so that a slice pads little."""
        loop = asyncio.get_running_loop()
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.zeros((len(texts), self.encoder.dimension), np.float32)
        for start in range(0, len(order), SLICE):
            rows = order[start : start + SLICE]
            vectors[rows] = await loop.run_in_executor(
                self.thread, self.encoder.encode_documents, [texts[i] for i in rows]
            )
        self.texts_embedded += len(texts)
        return vectors

    async def embed_counted(
        self, texts: Sequence[str], as_queries: bool
    ) -> tuple[NDArray[np.float32], int]:
        """Embed texts as queries or as documents; return the vectors and the tokens of it all."""
        embed = self.embed_queries if as_queries else self.embed_documents
        loop = asyncio.get_running_loop()
        counting = loop.run_in_executor(None, self.encoder.count_tokens, texts)
        return await embed(texts), sum(await counting)

    async def describe(self) -> dict[str, Any]:
        return {"model": self.encoder.fingerprint, "dimension": self.encoder.dimension}

    async def ping(self) -> str:
        return self.encoder.fingerprint

    async def status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "model": self.encoder.fingerprint,
            "provider": self.encoder.provider,
            "texts_embedded": self.texts_embedded,
        }


def load_encoder(args: EmbedderArgs) -> DenseEncoder:
    threads = threads_for(args.threads, args.num_cpus)
    device = Device(args.provider, threads, args.allow_cpu_fallback)
    return DenseEncoder.load(resolve_model(args.model), device)
