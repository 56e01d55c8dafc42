"""A document that is stored again: exactly its old chunks go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deployments.config import ChunkingArgs
from deployments.indexer import CHUNKS_A_COMMIT, Indexer
from pipeline.documents import CorpusKey, Document
from tests.deployments.handles import ScriptedHandle
from tests.deployments.indexers import indexer_of

CORPUS = CorpusKey("t", "c")
# Without a tokenizer a chunk has 64 characters: one of these paragraphs.
CHUNKING = ChunkingArgs(max_tokens=16, overlap_tokens=0)


@pytest.fixture
async def indexer(tmp_path: Path) -> AsyncIterator[Indexer]:
    owner = await indexer_of(tmp_path, ScriptedHandle(*[None] * 20), chunking=CHUNKING)
    yield owner
    await owner.maintenance.close()


def paragraphs(*words: str) -> list[str]:
    return [f"This paragraph, about as long as a chunk may be, says {word}" for word in words]


async def put(indexer: Indexer, identity: str, texts: list[str]) -> str:
    (result,) = await indexer.put(CORPUS, [Document(identity, "\n\n".join(texts))])
    return f"{result.status} {result.chunks}"


async def stored(indexer: Indexer, identity: str) -> list[tuple[str, str]]:
    return [(chunk.id, chunk.text) for chunk in await indexer.store.fetch(CORPUS, identity)]


def numbered(identity: str, texts: list[str]) -> list[tuple[str, str]]:
    return [(f"{identity}#{index}", text) for index, text in enumerate(texts)]


@pytest.mark.parametrize(
    "edited",
    [
        paragraphs("one", "another", "three"),
        paragraphs("one"),
        paragraphs("two", "three"),
        paragraphs("one", "two", "three", "four", "five"),
        paragraphs("zero", "one", "two", "three"),
    ],
    ids=["in the middle", "shrunk", "shorter", "grown", "begun otherwise"],
)
async def test_an_edited_document_has_its_new_chunks_and_none_of_the_old(
    indexer: Indexer, edited: list[str]
) -> None:
    first, neighbour = paragraphs("one", "two", "three"), paragraphs("alpha", "beta", "gamma")
    assert await put(indexer, "a", first) == "stored 3"
    # Ids that begin alike are still those of others.
    for identity in ("a#1", "b"):
        await put(indexer, identity, neighbour)
    assert await put(indexer, "a", edited) == f"stored {len(edited)}"
    assert await stored(indexer, "a") == numbered("a", edited)
    for identity in ("a#1", "b"):
        assert await stored(indexer, identity) == numbered(identity, neighbour)


async def test_a_document_of_many_commits_shrinks_to_one_chunk(indexer: Indexer) -> None:
    many = paragraphs(*(f"{number:04d}" for number in range(2 * CHUNKS_A_COMMIT)))
    assert await put(indexer, "a", many) == f"stored {len(many)}"
    assert await stored(indexer, "a") == numbered("a", many)
    assert await put(indexer, "a", many[:1]) == "stored 1"
    assert await stored(indexer, "a") == numbered("a", many[:1])


async def test_the_same_document_is_not_stored_again(indexer: Indexer) -> None:
    texts = paragraphs("one", "two")
    await put(indexer, "a", texts)
    assert await put(indexer, "a", texts) == "unchanged None"


@pytest.mark.parametrize(
    "other",
    [
        Document("a", "text", title="Another"),
        Document("a", "text", "Title", "another"),
        Document("a", "text", "Title", "source", {"year": 2021}),
        Document("a", "text", "Title", "source", {"year": 2020.0}),
        Document("a", "text", "Title", "source", {"year": 2020}, chunks=("text",)),
    ],
)
async def test_a_document_whose_title_source_metadata_or_chunks_differ_is_stored(
    indexer: Indexer, other: Document
) -> None:
    await indexer.put(CORPUS, [Document("a", "text", "Title", "source", {"year": 2020})])
    (result,) = await indexer.put(CORPUS, [other])
    assert result.status == "stored"


async def test_documents_cut_by_other_sizes_are_stored_again(
    indexer: Indexer, tmp_path: Path
) -> None:
    texts = paragraphs("one", "two")
    await put(indexer, "a", texts)
    wider = ChunkingArgs(max_tokens=64, overlap_tokens=0)
    other = await indexer_of(tmp_path, ScriptedHandle(None), chunking=wider)
    assert await put(other, "a", texts) == "stored 1"
    assert await stored(other, "a") == [("a#0", "\n\n".join(texts))]
    await other.maintenance.close()
