"""The Indexer as a plain object on a real index, without an embedder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deployments.indexer import Indexer
from pipeline.documents import CorpusKey, Document, PutResult
from pipeline.errors import NotFound, Unavailable
from tests.deployments.handles import ScriptedHandle
from tests.deployments.indexers import indexer_of

CORPUS = CorpusKey("t", "c")


@pytest.fixture
async def indexer(tmp_path: Path) -> AsyncIterator[Indexer]:
    owner = await indexer_of(tmp_path, ScriptedHandle(*[None] * 20))
    yield owner
    await owner.maintenance.close()


def documents(*ids: str, text: str = "a text") -> list[Document]:
    return [Document(identity, text) for identity in ids]


def told(indexer: Indexer) -> list[list[str]]:
    """The ids of each message to the tracker."""
    recorder: Any = indexer.recorder
    return [[identity for identity, _ in args[1]] for _, args in recorder.sent]


async def test_documents_are_stored_once_and_again_only_if_they_changed(
    indexer: Indexer,
) -> None:
    assert await indexer.put(CORPUS, documents("a", "b")) == [
        PutResult("a", "stored", 1),
        PutResult("b", "stored", 1),
    ]
    again = await indexer.put(CORPUS, [*documents("a"), *documents("b", text="another")])
    assert again == [PutResult("a", "unchanged"), PutResult("b", "stored", 1)]
    assert told(indexer) == [["a", "b"], ["b"]]


async def test_a_long_text_is_cut_and_given_chunks_are_kept(indexer: Indexer) -> None:
    long = " ".join(f"Sentence number {n} is here." for n in range(100))
    given = Document("g", "", chunks=("one", "two", "three"))
    cut, kept = await indexer.put(CORPUS, [Document("l", long), given])
    assert cut.chunks is not None
    assert cut.chunks > 4
    assert kept.chunks == 3
    texts = [chunk.text for chunk in await indexer.store.fetch(CORPUS, "g")]
    assert texts == ["one", "two", "three"]


async def test_overlapping_writes_are_all_told_once(indexer: Indexer) -> None:
    await asyncio.gather(*(indexer.put(CORPUS, documents(f"d{n}")) for n in range(8)))
    assert sorted(told(indexer)) == [[f"d{n}"] for n in range(8)]
    assert not indexer.untold


async def test_a_tracker_that_is_down_is_told_after_the_next_write(tmp_path: Path) -> None:
    owner = await indexer_of(tmp_path, ScriptedHandle(Unavailable("down"), None, None))
    assert (await owner.put(CORPUS, documents("a")))[0].status == "stored"
    await owner.put(CORPUS, documents("b"))
    assert told(owner) == [["a"], ["a"], ["b"]]
    await owner.maintenance.close()


async def test_what_was_committed_for_a_client_that_left_is_told_all_the_same(
    indexer: Indexer,
) -> None:
    await indexer.writing.acquire()
    leaving = asyncio.create_task(indexer.put(CORPUS, documents("a")))
    while not indexer.commits:
        await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    indexer.writing.release()
    await asyncio.gather(*indexer.commits)
    assert await indexer.put(CORPUS, documents("a", "b")) == [
        PutResult("a", "unchanged"),
        PutResult("b", "stored", 1),
    ]
    assert told(indexer) == [["a"], ["b"]]


async def test_a_deleted_document_is_gone_and_told(indexer: Indexer) -> None:
    await indexer.put(CORPUS, documents("a"))
    assert await indexer.delete(CORPUS, ["a", "never was"]) == 1
    assert await indexer.store.fetch(CORPUS, "a") == []
    recorder: Any = indexer.recorder
    assert recorder.sent[-1][1][1] == ["a", "never was"]


async def test_a_dropped_corpus_is_gone_and_told_and_can_be_made_again(indexer: Indexer) -> None:
    await indexer.put(CORPUS, documents("a", "b"))
    await indexer.drop(CORPUS)
    assert await indexer.store.corpora("t") == []
    recorder: Any = indexer.recorder
    corpus, at = recorder.sent[-1][1]
    assert (corpus, at.utcoffset()) == (CORPUS, timedelta(0))
    assert await indexer.put(CORPUS, documents("a")) == [PutResult("a", "stored", 1)]


async def test_a_corpus_that_does_not_exist_cannot_be_dropped(indexer: Indexer) -> None:
    with pytest.raises(NotFound):
        await indexer.drop(CORPUS)
    recorder: Any = indexer.recorder
    assert recorder.sent == []


async def test_a_corpus_dropped_before_its_maintenance_is_no_error(
    indexer: Indexer, caplog: pytest.LogCaptureFixture
) -> None:
    await indexer.put(CORPUS, documents("a"))
    await indexer.drop(CORPUS)
    await indexer.maintenance._round()
    assert caplog.records == []
