from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from deployments.providers.http import Http
from deployments.recorder import Recorder
from deployments.tracker_options import TrackerArgs
from tests.deployments.gateway import RecordingGateway, serving
from tests.deployments.providers.service import Service

# Schemathesis needs Python 3.11.
collect_ignore = [] if sys.version_info >= (3, 11) else ["test_schemathesis.py"]


@pytest.fixture
def gateway() -> RecordingGateway:
    return RecordingGateway()


@pytest.fixture
async def client(gateway: RecordingGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(gateway) as running:
        yield running


@pytest.fixture
def service() -> Iterator[Service]:
    """A service on loopback."""
    running = Service()
    yield running
    running.close()


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    """What asks services, without long waits between tries."""
    asking = Http(backoff_s=0.001)
    yield asking
    await asking.close()


@pytest.fixture
async def recorder(tmp_path: Path) -> AsyncIterator[Recorder]:
    """A Recorder as a plain object, on a file of its own."""
    owner = Recorder(TrackerArgs(path=str(tmp_path / "tracker.duckdb")))
    assert await owner.ping()
    yield owner
    await owner.close()
