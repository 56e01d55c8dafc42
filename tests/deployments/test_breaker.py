from __future__ import annotations

import asyncio

import pytest

from deployments.breaker import Breaker
from pipeline.errors import Unavailable


class Part:
    """A part that is down for a number of probes."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.probes = 0

    async def probe(self) -> None:
        self.probes += 1
        if self.probes <= self.failures:
            raise Unavailable("still down")


async def test_calls_fail_at_once_until_a_probe_succeeds() -> None:
    part = Part(failures=2)
    breaker = Breaker("Scorer", part.probe, interval_s=0.01)
    breaker.check()
    breaker.trip()
    with pytest.raises(Unavailable, match="Scorer is down"):
        breaker.check()
    while breaker.is_open:
        await asyncio.sleep(0.01)
    breaker.check()
    assert (part.probes, breaker.opened) == (3, 1)


async def test_tripping_twice_starts_one_probe() -> None:
    part = Part(failures=0)
    breaker = Breaker("Scorer", part.probe, interval_s=0.01)
    breaker.trip()
    breaker.trip()
    await asyncio.sleep(0.05)
    assert (part.probes, breaker.opened) == (1, 1)
