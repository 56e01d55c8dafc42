"""More requests at once than the scorer takes: each is answered, or told when to come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import httpx
import pytest

from deployments.inference.batching import Batcher
from deployments.inference.score_cache import ScoreCache
from deployments.inference.truncation import Truncation
from deployments.inference.work import PairOutcome
from deployments.ranking import RerankAnswer, rerank_texts
from deployments.scorer import tally_of
from pipeline.scoring import Pair, PairScore, ScoreAnswer
from tests.deployments.dialects import DIALECTS, Dialect, serving_defaults
from tests.deployments.gateway import RecordingGateway
from tests.deployments.inference.word_model import WordModel

REQUESTS = 20


class BatchingGateway(RecordingGateway):
    """Ranks as the Scorer does, with a queue that holds one request. While `model.go` is not set,
    nothing is scored."""

    def __init__(self) -> None:
        super().__init__()
        self.model = WordModel()
        self.batcher = Batcher(self.model, ScoreCache(0), max_queued_tokens=1)

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer:
        score = partial(self.score, tenant, remaining_ms / 1e3)
        return await rerank_texts(query, documents, score)

    async def score(
        self, tenant: str, timeout_s: float, query: str, pairs: Sequence[Pair]
    ) -> ScoreAnswer:
        outcomes = await self.batcher.score(tenant, query, pairs, timeout_s)
        return ScoreAnswer("m", tuple(map(score_of, outcomes)), tally_of(outcomes))


def score_of(outcome: PairOutcome) -> PairScore:
    assert outcome.score is not None
    return PairScore(outcome.score.logit, 0.5, tokens=outcome.score.tokens)


@pytest.fixture
async def gateway() -> AsyncIterator[BatchingGateway]:
    gateway = BatchingGateway()
    gateway.batcher.start()
    yield gateway
    gateway.model.go.set()
    await gateway.batcher.close()


def ask(client: httpx.AsyncClient, dialect: Dialect, number: int) -> asyncio.Task[httpx.Response]:
    text = "word " * (number + 20)
    return asyncio.create_task(client.post(dialect.path, json=dialect.body("q", [text])))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: f"{one.path} {one.texts}")
async def test_of_twenty_at_once_one_is_served_and_the_others_are_told_when_to_come_back(
    gateway: BatchingGateway, dialect: Dialect
) -> None:
    gateway.model.go.clear()
    async with serving_defaults(gateway) as client:
        asked = [ask(client, dialect, number) for number in range(REQUESTS)]
        refused = [await one for one in asked[1:]]
        assert not asked[0].done()
        gateway.model.go.set()
        assert (await asked[0]).status_code == 200
        assert {one.status_code for one in refused} == {429}
        assert all(int(one.headers["Retry-After"]) >= 1 for one in refused)
        assert all("the scorer's queue is full" in one.text for one in refused)
        assert (await ask(client, dialect, 1)).status_code == 200
