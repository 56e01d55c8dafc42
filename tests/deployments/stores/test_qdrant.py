"""What of Qdrant the contract leaves open: replacing, sharing a collection, failing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient

from deployments.stores.protocol import IndexedChunk
from deployments.stores.qdrant import QdrantStore
from deployments.stores.qdrant_collection import connect_to
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import InvalidInput, NotFound, Unavailable
from tests.contracts.passages import DOCS, X, find_near, find_text, ids, passage


class CutShort(AsyncQdrantClient):
    """A client in local mode that fails at one call of a kind, as a killed writer would."""

    fails_at: str = ""

    async def delete(self, *args: Any, **options: Any) -> Any:
        self._fail("delete")
        return await super().delete(*args, **options)

    async def upsert(self, *args: Any, **options: Any) -> Any:
        self._fail("upsert")
        return await super().upsert(*args, **options)

    def _fail(self, call: str) -> None:
        if self.fails_at == call:
            raise ValueError("cut short")


@pytest.fixture
def client() -> CutShort:
    return CutShort(":memory:")


def store_on(client: AsyncQdrantClient, dimension: int | None = 3) -> QdrantStore:
    return QdrantStore(lambda: client, "onepass", dimension)


async def test_a_replacement_that_was_cut_short_is_no_stored_document(client: CutShort) -> None:
    store = store_on(client)
    await store.upsert(DOCS, [passage("a", f"old {n}", place=n) for n in range(3)])
    client.fails_at = "delete"
    with pytest.raises(Unavailable):
        await store.upsert(DOCS, [passage("a", "new", place=0)])
    assert await store.digests(DOCS, ["a"]) == {}

    client.fails_at = ""
    await store.upsert(DOCS, [passage("a", "new", place=0)])
    assert [chunk.text for chunk in await store.fetch(DOCS, "a")] == ["new"]
    assert await store.digests(DOCS, ["a"]) == {"a": "digest of a"}


async def test_a_document_of_which_a_part_was_written_has_no_digest(
    client: CutShort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.stores.qdrant_collection.POINTS_A_REQUEST", 2)
    store = store_on(client)
    await store.upsert(DOCS, [passage("a", place=n) for n in range(5)])
    assert await store.digests(DOCS, ["a"]) == {"a": "digest of a"}

    last = await client.scroll("onepass", limit=100)
    kept = [point for point in last[0] if (point.payload or {}).get("chunk_index") == 4]
    await client.delete("onepass", [point.id for point in kept])
    assert await store.digests(DOCS, ["a"]) == {}


async def test_what_fails_before_the_new_chunks_are_there_leaves_the_old(client: CutShort) -> None:
    store = store_on(client)
    await store.upsert(DOCS, [passage("a", "old")])
    client.fails_at = "upsert"
    with pytest.raises(Unavailable, match=r"^the index engine failed$"):
        await store.upsert(DOCS, [passage("a", "new")])
    assert [chunk.text for chunk in await store.fetch(DOCS, "a")] == ["old"]
    assert await store.digests(DOCS, ["a"]) == {"a": "digest of a"}


async def test_a_words_rarity_is_that_in_its_own_corpus(client: CutShort) -> None:
    store = store_on(client)
    await store.upsert(DOCS, [passage("a", "red fox"), passage("b", "red dog")])
    before = [hit.score for hit in await find_text(store, "red fox")]
    for tenant, name in (("acme", "other"), ("rival", "docs")):
        corpus = CorpusKey(tenant, name)
        await store.upsert(corpus, [passage(f"{n}", "fox") for n in range(50)])

    assert [hit.score for hit in await find_text(store, "red fox")] == before


async def test_a_collection_is_of_one_dimension(client: CutShort) -> None:
    await store_on(client).upsert(DOCS, [passage("a")])

    with pytest.raises(Unavailable, match="dimension 3, the model of 2"):
        await store_on(client, 2).upsert(CorpusKey("acme", "other"), [passage("a", vector=[1, 0])])
    with pytest.raises(Unavailable, match="dimension 3, the model of None"):
        await store_on(client, None).upsert(DOCS, [passage("a", vector=None)])
    with pytest.raises(Unavailable, match="dimension 3, the model of 2"):
        await find_near(store_on(client, None), [1, 0])


async def test_a_collection_without_vectors_has_its_words(client: CutShort) -> None:
    store = store_on(client, None)
    await store.upsert(DOCS, [passage("a", vector=None)])

    assert ids(await find_text(store, "word")) == ["a#0"]
    with pytest.raises(Unavailable, match="dimension None, the model of 3"):
        await find_near(store, X)


async def test_a_vector_of_another_length_is_a_mistake_of_ours(client: CutShort) -> None:
    with pytest.raises(ValueError, match=r"shape is not \(3,\)"):
        await store_on(client).upsert(DOCS, [passage("a", vector=[1, 0])])


async def test_a_number_beyond_float64_is_refused(client: CutShort) -> None:
    with pytest.raises(InvalidInput, match="finite as a float64"):
        await store_on(client).upsert(DOCS, [passage("a", metadata={"n": 10**400})])


async def test_two_writers_may_create_a_corpus_at_once(client: CutShort) -> None:
    stores = [store_on(client) for _ in range(4)]
    writes = [store.upsert(DOCS, [passage(f"{n}")]) for n, store in enumerate(stores)]
    await asyncio.gather(*writes)

    assert ids(await find_text(stores[0], "word")) == ["0#0", "1#0", "2#0", "3#0"]


async def test_a_store_that_only_reads_refuses_to_write(client: CutShort) -> None:
    await store_on(client).upsert(DOCS, [passage("a")])
    reader = QdrantStore(lambda: client, "onepass", None, read_only=True)

    assert ids(await find_near(reader, X)) == ["a#0"]
    for write in (
        reader.upsert(DOCS, []),
        reader.delete(DOCS, ["a"]),
        reader.optimise(DOCS),
        reader.drop(DOCS),
    ):
        with pytest.raises(Unavailable, match="only reads"):
            await write


async def test_documents_are_listed_over_several_pages(
    client: CutShort, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("qdrant", "qdrant_collection"):
        monkeypatch.setattr(f"deployments.stores.{module}.POINTS_A_PAGE", 3)
    store = store_on(client)
    await store.upsert(DOCS, [passage(f"{n:02}", place=k) for n in range(20) for k in range(2)])

    assert await store.documents(DOCS, "07", 3) == [("08", None), ("09", None), ("10", None)]
    assert len(await store.documents(DOCS, "", 100)) == 20


class Refusing(BaseHTTPRequestHandler):
    """A server that answers 401, and notes the keys it is shown."""

    keys: list[str | None]

    def do_GET(self) -> None:
        self.keys.append(self.headers.get("api-key"))
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b"forbidden: s3cret")

    do_POST = do_PUT = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def refusing_server() -> Iterator[tuple[str, list[str | None]]]:
    keys: list[str | None] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Noting", (Refusing,), {"keys": keys}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_the_key_is_sent_and_a_refusal_is_unavailable_without_its_text() -> None:
    with refusing_server() as (url, keys):
        store = QdrantStore(lambda: connect_to(url, "s3cret", None), "onepass", 3)
        with pytest.raises(Unavailable, match=r"^the index engine failed$"):
            await find_text(store, "word")
    assert set(keys) == {"s3cret"}


@pytest.mark.parametrize("grpc_port", [None, 1])
async def test_a_server_that_is_not_there_is_unavailable(grpc_port: int | None) -> None:
    store = QdrantStore(lambda: connect_to("http://127.0.0.1:1", None, grpc_port), "onepass", 3)

    for call in (store.corpora("acme"), store.fetch(DOCS, "a"), store.upsert(DOCS, [])):
        with pytest.raises(Unavailable, match=r"^the index engine failed$"):
            await call


async def test_a_collection_deleted_and_made_again_is_followed(client: CutShort) -> None:
    await store_on(client).upsert(DOCS, [passage("a")])
    reader = store_on(client, None)
    assert ids(await find_near(reader, X)) == ["a#0"]

    await client.delete_collection("onepass")
    with pytest.raises(NotFound):
        await find_near(reader, X)
    wide = IndexedChunk(Chunk("b#0", "b", 0, "word"), np.ones(4, np.float32), "digest")
    await store_on(client, 4).upsert(DOCS, [wide])
    assert ids(await find_near(reader, [1, 1, 1, 1])) == ["b#0"]
