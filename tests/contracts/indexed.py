"""LanceDB with every index, however small the corpus is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from deployments.stores import lance_indexes
from deployments.stores.lance import LanceStore
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import CorpusKey
from pipeline.legs import LegHit
from pipeline.vectors import Encoders

DIMENSION = 8  # the least that the vector index takes


class IndexedLanceStore(LanceStore):
    """Brings its indexes up to date after each write. Vectors are filled up with zeros."""

    async def upsert(self, corpus: CorpusKey, chunks: Sequence[IndexedChunk]) -> None:
        await super().upsert(corpus, [replace(one, vector=_wide(one.vector)) for one in chunks])
        await self.optimise(corpus)

    async def search(self, corpus: CorpusKey, query: LegQuery) -> list[LegHit]:
        return await super().search(corpus, replace(query, vector=_wide(query.vector)))


def open_indexed(uri: str, encoders: Encoders, patch: pytest.MonkeyPatch) -> IndexedLanceStore:
    patch.setattr(lance_indexes, "COLUMN_INDEX_ROWS", 1)
    return IndexedLanceStore(uri, DIMENSION, encoders=encoders, ann_min_rows=1)


def _wide(vector: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    if vector is None:
        return None
    return np.concatenate([vector, np.zeros(DIMENSION - len(vector), np.float32)])
