"""How much the Indexer holds and embeds at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments import indexer as module
from deployments.indexer import CALLS_AT_ONCE, CHUNKS_A_CALL, CHUNKS_A_COMMIT, Indexer
from pipeline.documents import CorpusKey, Document
from pipeline.errors import Overloaded, Unavailable
from pipeline.vectors import Embedded, Encoders
from tests.deployments.handles import Response, ScriptedHandle
from tests.deployments.indexers import indexer_of

CORPUS = CorpusKey("t", "c")


class SlowEmbedder(ScriptedHandle):
    """Answers a call only when told to; fails one that holds the text `poison`."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()
        self.calls: list[int] = []
        self.running = self.most = 0

    def options(self, *, method_name: str, _by_reference: bool) -> ScriptedHandle:
        self.method = method_name
        return self

    def remote(self, *args: Any) -> Response:
        if self.method == "describe":
            return Response(lambda: {"encoders": Encoders("m@1"), "dimension": 2}, self)
        return Response(lambda: asyncio.ensure_future(self.embed(args[0])), self)

    async def embed(self, texts: list[str]) -> Any:
        self.calls.append(len(texts))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.released.wait()
        finally:
            self.running -= 1
        if "poison" in texts:
            raise Unavailable("Embedder failed")
        return Embedded(np.ones((len(texts), 2), np.float32), None, Encoders("m@1"))


async def make(folder: Path) -> tuple[Indexer, SlowEmbedder]:
    embedder = SlowEmbedder()
    return await indexer_of(folder, ScriptedHandle(*[None] * 50), embedder), embedder


def of_chunks(identity: str, count: int) -> Document:
    return Document(identity, "", chunks=tuple(f"{identity} {n}" for n in range(count)))


async def test_few_calls_of_few_chunks_are_under_way_at_once(tmp_path: Path) -> None:
    owner, embedder = await make(tmp_path)
    puts = [asyncio.ensure_future(owner.put(CORPUS, [of_chunks(f"d{n}", 300)])) for n in range(6)]
    while embedder.running < CALLS_AT_ONCE:
        await asyncio.sleep(0.01)
    embedder.released.set()
    assert [result.chunks for one in puts for result in await one] == [300] * 6
    assert embedder.most == CALLS_AT_ONCE
    assert max(embedder.calls) == CHUNKS_A_CALL
    assert sum(embedder.calls) == 1800
    await owner.maintenance.close()


async def test_more_text_than_there_is_room_for_is_refused_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CHARACTERS", 100)
    owner, embedder = await make(tmp_path)
    first = asyncio.ensure_future(owner.put(CORPUS, [Document("a", "x" * 500)]))
    while not embedder.running:
        await asyncio.sleep(0.01)
    with pytest.raises(Overloaded) as refused:
        await owner.put(CORPUS, [Document("b", "y")])
    assert refused.value.retry_after_s == module.RETRY_AFTER_S
    embedder.released.set()
    assert (await first)[0].status == "stored"
    assert (await owner.put(CORPUS, [Document("b", "y")]))[0].status == "stored"
    await owner.maintenance.close()


async def test_a_client_that_left_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CHARACTERS", 100)
    owner, embedder = await make(tmp_path)
    leaving = asyncio.ensure_future(owner.put(CORPUS, [Document("a", "x" * 500)]))
    while not embedder.running:
        await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    embedder.released.set()
    assert (await owner.put(CORPUS, [Document("b", "y")]))[0].status == "stored"
    assert await owner.store.digests(CORPUS, ["a"]) == {}
    await owner.maintenance.close()


async def test_what_cannot_be_embedded_fails_with_its_commit_and_no_other(tmp_path: Path) -> None:
    owner, embedder = await make(tmp_path)
    embedder.released.set()
    bad = Document("bad", "", chunks=("poison",))
    documents = [of_chunks("a", CHUNKS_A_COMMIT), bad, of_chunks("b", CHUNKS_A_COMMIT)]
    results = await owner.put(CORPUS, documents)
    assert [(one.status, one.error) for one in results] == [
        ("stored", None),
        ("failed", "Embedder failed"),
        ("stored", None),
    ]
    again = await owner.put(CORPUS, documents)
    assert [one.status for one in again] == ["unchanged", "failed", "unchanged"]
    await owner.maintenance.close()
