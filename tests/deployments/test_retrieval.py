"""Retrieval: legs in parallel, each with its own time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from deployments.config import IndexArgs
from deployments.retrieval import Retrieval
from deployments.stores.memory import MemoryStore
from deployments.stores.protocol import CorpusSize, IndexedChunk, LegQuery
from pipeline.documents import CorpusKey
from pipeline.errors import InvalidInput, NotFound, Unavailable
from pipeline.legs import LegHit, LegResult
from tests.fakes import chunk

CORPUS = CorpusKey("t", "c")
HIT = LegHit(chunk("a"), 1.0)


class ScriptedStore:
    """Answers by the query's text: an error is raised, an event waited for; notes what runs."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.running: set[str] = set()
        self.all_running = asyncio.Event()

    async def search(self, corpus: CorpusKey, query: LegQuery) -> list[LegHit]:
        self.running.add(query.text)
        if self.running == set(self.answers):
            self.all_running.set()
        answer = self.answers[query.text]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        return [HIT]


def retrieval(folder: Path, store: ScriptedStore) -> Retrieval:
    made = Retrieval(IndexArgs(uri=str(folder)))
    made.store = store  # type: ignore[assignment]
    return made


def queries(*texts: str) -> list[tuple[int, LegQuery]]:
    return [(number, LegQuery("bm25", 5, text)) for number, text in enumerate(texts)]


async def test_all_legs_of_all_variants_run_at_once(tmp_path: Path) -> None:
    store = ScriptedStore(a=None, b=None, c=None)
    store.answers = dict.fromkeys("abc", store.all_running)  # none ends before all have begun
    results = await retrieval(tmp_path, store).search(CORPUS, queries("a", "b", "c"), 60_000)
    assert results == [LegResult("bm25", number, 5, (HIT,)) for number in range(3)]


async def test_a_leg_that_fails_or_is_slow_is_data_and_the_others_answer(tmp_path: Path) -> None:
    store = ScriptedStore(broken=Unavailable("index is down"), slow=asyncio.Event(), good=None)
    owner = retrieval(tmp_path, store)
    assert await owner.search(CORPUS, queries("broken", "slow", "good"), 50) == [
        LegResult("bm25", 0, 5, error="index is down"),
        LegResult("bm25", 1, 5, error="timed out"),
        LegResult("bm25", 2, 5, (HIT,)),
    ]
    assert (await owner.status())["failed_legs"] == 2


@pytest.mark.parametrize(
    "error", [NotFound("no such corpus", "corpus"), InvalidInput("too long", "filter")]
)
async def test_what_no_leg_can_be_asked_is_raised(tmp_path: Path, error: Exception) -> None:
    store = ScriptedStore(a=error)
    with pytest.raises(type(error)):
        await retrieval(tmp_path, store).search(CORPUS, queries("a"), 60_000)


async def test_corpora_are_listed_from_a_name_on_and_one_that_cannot_be_counted_hides_no_other(
    tmp_path: Path,
) -> None:
    owner = Retrieval(IndexArgs(uri=str(tmp_path)))
    store = MemoryStore()
    owner.store = store
    for name, chunks in {"a": 1, "b": 2, "c": 3, "d": 1}.items():
        key = CorpusKey("t", name)
        await store.upsert(key, [indexed(f"{n}") for n in range(chunks)])
    await store.upsert(CorpusKey("u", "b"), [indexed("0")])
    b, c = ("b", CorpusSize(2, 2)), ("c", CorpusSize(3, 3))
    assert await owner.corpora("t", "a", 2) == [b, c]
    assert await owner.corpora("t", "c", 2) == [("d", CorpusSize(1, 1))]
    assert await owner.corpora("nobody", "", 2) == []
    owner.store = Damaged("c", store)
    assert await owner.corpora("t", "a", 2) == [b, ("c", None)]


class Damaged(MemoryStore):
    """A store of which one corpus cannot be read."""

    def __init__(self, name: str, other: MemoryStore) -> None:
        self._corpora = other._corpora
        self.name = name

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        if corpus.name == self.name:
            raise Unavailable("damaged")
        return await super().size(corpus)


def indexed(document: str) -> IndexedChunk:
    return IndexedChunk(chunk(document), None, "digest")
