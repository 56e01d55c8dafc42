"""A service on loopback, and the client that asks it without long waits between tries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from deployments.providers.http import Http
from tests.deployments.providers.service import Service


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.close()


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    client = Http(backoff_s=0.001)
    yield client
    await client.close()
