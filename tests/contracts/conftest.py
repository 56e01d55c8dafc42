from __future__ import annotations

from pathlib import Path

import pytest

from deployments.stores.lance import LanceStore
from deployments.stores.memory import MemoryStore
from deployments.stores.protocol import Store


@pytest.fixture(params=["memory", "lance"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return LanceStore(str(tmp_path), dimension=3)
