from __future__ import annotations

from pathlib import Path

import pytest

from deployments.stores.lance import LanceStore
from deployments.stores.memory import MemoryStore
from deployments.stores.protocol import Store
from pipeline.vectors import NO_ENCODERS, Encoders
from tests.contracts.passages import OpenStore


@pytest.fixture(params=["memory", "lance"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "memory":
        return memory_stores()
    return lambda encoders: LanceStore(str(tmp_path), dimension=3, encoders=encoders)


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
