"""The Indexer keeps a corpus to the models that it was made with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments.indexer import Indexer
from deployments.stores.memory import MemoryStore
from deployments.stores.protocol import LegQuery
from pipeline.documents import CorpusKey, Document
from pipeline.errors import InvalidInput
from pipeline.legs import DENSE, SPARSE
from pipeline.vectors import Embedded, Encoders, SparseVector
from tests.deployments.handles import Response, ScriptedHandle
from tests.deployments.indexers import indexer_of

CORPUS = CorpusKey("t", "c")


class Embedder(ScriptedHandle):
    """Embeds every text alike, by models of these names."""

    def __init__(self, encoders: Encoders) -> None:
        super().__init__()
        self.encoders = encoders

    def options(self, *, method_name: str, _by_reference: bool) -> ScriptedHandle:
        self.method = method_name
        return self

    def remote(self, *args: Any) -> Response:
        if self.method == "describe":
            return Response(lambda: {"encoders": self.encoders, "dimension": 2}, self)
        count = len(args[0])
        terms = SparseVector(np.array([3]), np.array([0.5], np.float32))
        sparse = [terms] * count if self.encoders.sparse else None
        dense = np.ones((count, 2), np.float32)
        return Response(lambda: Embedded(dense, sparse, self.encoders), self)


async def indexer(folder: Path, encoders: Encoders) -> Indexer:
    return await indexer_of(folder, ScriptedHandle(*[None] * 9), Embedder(encoders))


async def test_a_corpus_of_another_model_takes_nothing_and_stays_as_it_was(tmp_path: Path) -> None:
    first = await indexer(tmp_path, Encoders("bge@1"))
    await first.put(CORPUS, [Document("a", "text")])
    second = await indexer(tmp_path, Encoders("bge@2"))

    with pytest.raises(InvalidInput, match=r"vectors of bge@1, .* those of bge@2") as refused:
        await second.put(CORPUS, [Document("a", "text"), Document("b", "text")])

    assert refused.value.param == "corpus"
    assert (await first.store.size(CORPUS)).documents == 1
    assert [one.status for one in await first.put(CORPUS, [Document("a", "text")])] == ["unchanged"]
    other = CorpusKey("t", "other")
    assert [one.status for one in await second.put(other, [Document("a", "text")])] == ["stored"]
    for one in (first, second):
        await one.maintenance.close()


async def test_both_vectors_of_a_text_are_stored(tmp_path: Path) -> None:
    encoders = Encoders("bge@1", "splade@1")
    owner = await indexer(tmp_path, encoders)
    owner.store = MemoryStore(encoders)
    await owner.put(CORPUS, [Document("a", "text")])

    asked = SparseVector(np.array([3, 4]), np.array([2, 9], np.float32))
    sparse = LegQuery(SPARSE, 5, sparse_vector=asked, model="splade@1")
    dense = LegQuery(DENSE, 5, vector=np.array([1, 0], np.float32), model="bge@1")
    assert [hit.score for hit in await owner.store.search(CORPUS, sparse)] == [1.0]
    assert len(await owner.store.search(CORPUS, dense)) == 1
    await owner.maintenance.close()
