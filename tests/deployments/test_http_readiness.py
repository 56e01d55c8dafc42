"""Live from the start, ready once a pair was scored: over the gateway of the application."""

from __future__ import annotations

from typing import Any, cast

import httpx
import pytest
from ray.exceptions import ActorDiedError

from deployments.serve_gateway import ServeGateway
from tests.deployments.gateway import RecordingGateway, serving
from tests.deployments.handles import ScriptedHandle

MODEL = "m@1"


def application(**pings: list[Any]) -> httpx.AsyncClient:
    """The routes before parts that answer their pings one after another; None is a part down."""
    handles = {
        name: ScriptedHandle(*[ActorDiedError() if one is None else one for one in answers])
        for name, answers in pings.items()
    }
    return serving(cast(RecordingGateway, ServeGateway(cast(Any, handles))))


async def ready(client: httpx.AsyncClient) -> tuple[int, Any]:
    response = await client.get("/readyz")
    return response.status_code, response.json()


async def test_it_is_ready_once_the_scorer_has_scored_and_stays_so() -> None:
    up = ["up"] * 3
    async with application(Composer=up, Retrieval=up, Scorer=[None, MODEL, None]) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert await ready(client) == (503, {"status": "starting", "degraded": ["Scorer"]})
        assert await ready(client) == (200, {"status": "ready", "degraded": []})
        assert await ready(client) == (200, {"status": "ready", "degraded": ["Scorer"]})


@pytest.mark.parametrize("needed", ["Composer", "Retrieval"])
async def test_without_a_part_that_searches_need_it_does_not_become_ready(needed: str) -> None:
    parts: dict[str, list[Any]] = {"Composer": ["up"], "Retrieval": ["up"], needed: [None]}
    async with application(**parts) as client:
        assert await ready(client) == (503, {"status": "starting", "degraded": [needed]})


async def test_a_part_that_searches_can_do_without_is_named_and_not_waited_for() -> None:
    async with application(Composer=["up"], Retrieval=["up"], Recorder=[None]) as client:
        assert await ready(client) == (200, {"status": "ready", "degraded": ["Recorder"]})
