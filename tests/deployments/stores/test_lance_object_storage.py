"""LanceDB on an object store: where credentials come from, and what a store that is gone means."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deployments.stores.lance import LanceStore
from pipeline.documents import CorpusKey
from pipeline.errors import Unavailable
from tests.contracts.passages import DOCS, find_text, ids, passage
from tests.object_storage import ObjectStorage, object_storage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def storage() -> Iterator[ObjectStorage]:
    with object_storage() as server:
        yield server


async def test_credentials_and_endpoint_may_come_from_the_environment(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in storage.options.items():
        monkeypatch.setenv(name.upper() if name.startswith("aws") else f"AWS_{name.upper()}", value)
    store = LanceStore(storage.uri("environment"), 3)

    await store.upsert(DOCS, [passage("a")])

    assert ids(await find_text(store, "word")) == ["a#0"]


async def test_tables_of_a_bucket_without_any_are_none(storage: ObjectStorage) -> None:
    store = LanceStore(storage.uri("empty"), 3, storage.options, read_only=True)

    assert await store.corpora("acme") == []


async def test_a_store_that_is_gone_is_unavailable() -> None:
    with object_storage() as server:
        store = LanceStore(server.uri("gone"), 3, {**server.options, "client_max_retries": "0"})
        await store.upsert(DOCS, [passage("a")])

    with pytest.raises(Unavailable):
        await find_text(store, "word")
    with pytest.raises(Unavailable):
        await store.upsert(CorpusKey("acme", "new"), [passage("b")])
