from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from deployments.maintenance import Maintenance
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound

A, B = CorpusKey("t", "a"), CorpusKey("t", "b")


class Engine:
    """Notes what it optimises; a corpus that was dropped meanwhile is not found."""

    def __init__(self) -> None:
        self.optimised: list[CorpusKey] = []
        self.dropped: set[CorpusKey] = set()

    async def optimise(self, corpus: CorpusKey) -> None:
        if corpus in self.dropped:
            raise NotFound("gone")
        self.optimised.append(corpus)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
async def maintenance(engine: Engine) -> AsyncIterator[Maintenance]:
    owner = Maintenance(engine.optimise, pause_s=0.01)
    owner.start()
    yield owner
    await owner.close()


async def rounds(maintenance: Maintenance, count: int) -> None:
    while maintenance.rounds < count:
        await asyncio.sleep(0.005)


async def test_many_writes_are_one_round(engine: Engine, maintenance: Maintenance) -> None:
    for _ in range(5):
        maintenance.written(A)
    await rounds(maintenance, 1)
    assert engine.optimised == [A]


async def test_nothing_is_optimised_without_a_write(
    engine: Engine, maintenance: Maintenance
) -> None:
    await asyncio.sleep(0.05)
    assert (engine.optimised, maintenance.rounds) == ([], 0)


async def test_a_corpus_that_is_gone_stops_no_other_and_no_later_round(
    engine: Engine, maintenance: Maintenance
) -> None:
    engine.dropped = {A}
    maintenance.written(A)
    maintenance.written(B)
    await rounds(maintenance, 1)
    maintenance.written(B)
    await rounds(maintenance, 2)
    assert engine.optimised == [B, B]


async def test_a_corpus_left_alone_is_optimised_once_more(engine: Engine) -> None:
    maintenance = Maintenance(engine.optimise, pause_s=0.01, settle_s=0.05)
    maintenance.start()
    maintenance.written(A)
    await rounds(maintenance, 2)
    assert engine.optimised == [A, A]
    await asyncio.sleep(0.15)
    assert engine.optimised == [A, A]
    await maintenance.close()


async def test_a_corpus_that_fails_is_tried_again_when_it_has_settled(engine: Engine) -> None:
    maintenance = Maintenance(engine.optimise, pause_s=0.01, settle_s=0.05)
    maintenance.start()
    engine.dropped = {A}
    maintenance.written(A)
    await rounds(maintenance, 1)
    engine.dropped = set()
    await rounds(maintenance, 2)
    assert engine.optimised == [A]
    await maintenance.close()
