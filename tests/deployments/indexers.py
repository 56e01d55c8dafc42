"""Indexers as plain objects, on a real index in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deployments.config import ChunkingArgs, IndexArgs
from deployments.indexer import Indexer


async def indexer_of(
    folder: Path, recorder: Any, embedder: Any = None, chunking: ChunkingArgs | None = None
) -> Indexer:
    """Make one as Serve does, which awaits the constructor."""
    owner = Indexer.__new__(Indexer)
    args = (IndexArgs(uri=str(folder)), chunking or ChunkingArgs(), None, embedder, recorder)
    await owner.__init__(*args)  # type: ignore[misc]
    return owner
