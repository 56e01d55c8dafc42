from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.deployments.gateway import RecordingGateway, serving


@pytest.fixture
def gateway() -> RecordingGateway:
    return RecordingGateway()


@pytest.fixture
async def client(gateway: RecordingGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(gateway) as running:
        yield running
