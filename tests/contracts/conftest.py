from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient

from deployments.stores.lance import LanceStore
from deployments.stores.memory import MemoryStore
from deployments.stores.protocol import Store
from deployments.stores.qdrant import QdrantStore
from deployments.stores.qdrant_collection import connect_to
from pipeline.vectors import NO_ENCODERS, Encoders
from tests.contracts.indexed import open_indexed
from tests.contracts.memory_tracker import MemoryTracker, Tracker
from tests.contracts.passages import OpenStore
from tests.contracts.qdrant_server import qdrant_server
from tests.object_storage import ObjectStorage, object_storage
from tracker.store import TrackerStore

# A server to run the suite on, beside the client's local mode.
QDRANT_URL = os.environ.get("ONEPASS_TEST_QDRANT_URL")
SERVERS = ["qdrant server"] if QDRANT_URL else []


LANCE = ["lance", "lance indexed", pytest.param("lance on s3", marks=pytest.mark.slow)]


@pytest.fixture(params=["memory", *LANCE, "qdrant local", "qdrant http", *SERVERS])
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenStore]:
    if request.param == "memory":
        yield memory_stores()
    elif request.param == "lance":
        yield lambda encoders: LanceStore(str(tmp_path), dimension=3, encoders=encoders)
    elif request.param == "lance indexed":
        yield lambda encoders: open_indexed(str(tmp_path), encoders, monkeypatch)
    elif request.param == "lance on s3":
        storage: ObjectStorage = request.getfixturevalue("s3")
        uri = storage.uri(uuid.uuid4().hex)
        yield lambda encoders: LanceStore(uri, 3, storage.options, encoders=encoders)
    elif request.param == "qdrant local":
        client = AsyncQdrantClient(":memory:")
        yield lambda encoders: QdrantStore(lambda: client, "onepass", 3, encoders=encoders)
    elif request.param == "qdrant http":
        yield from qdrant_stores(request.getfixturevalue("qdrant_url"))
    else:
        yield from qdrant_stores(str(QDRANT_URL))


@pytest.fixture(scope="session")
def s3() -> Iterator[ObjectStorage]:
    with object_storage() as storage:
        yield storage


@pytest.fixture(scope="session")
def qdrant_url() -> Iterator[str]:
    with qdrant_server() as url:
        yield url


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store(NO_ENCODERS)


def memory_stores() -> OpenStore:
    first = MemoryStore()

    def another(encoders: Encoders) -> MemoryStore:
        store = MemoryStore(encoders)
        store._corpora, store._encoders = first._corpora, first._encoders
        return store

    return another


def qdrant_stores(url: str) -> Iterator[OpenStore]:
    """A collection of this test's own on a server, deleted behind it."""
    name = f"onepass-test-{uuid.uuid4().hex}"
    key = os.environ.get("ONEPASS_TEST_QDRANT_API_KEY")
    port = os.environ.get("ONEPASS_TEST_QDRANT_GRPC_PORT")
    yield lambda encoders: QdrantStore(
        lambda: connect_to(url, key, int(port) if port else None), name, 3, encoders=encoders
    )
    QdrantClient(url=url, api_key=key, check_compatibility=False).delete_collection(name)


@pytest.fixture(params=["memory", "duckdb"])
def tracker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tracker]:
    one: Tracker = (
        MemoryTracker()
        if request.param == "memory"
        else TrackerStore.open(tmp_path / "tracker.duckdb", memory_limit="256MB", threads=1)
    )
    yield one
    one.close()
