"""A remote reranker behind a deadline, a breaker and a cache."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from deployments.inference.truncation import AS_CONFIGURED
from deployments.provider_options import ProviderArgs
from deployments.providers.http import Http, Refused
from deployments.providers.rerankers import RemoteScorer
from deployments.remote_client import RemoteClient
from pipeline.errors import DeadlineExceeded, OnepassError, Unavailable
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally

A, B, C = Pair("digest a", "a"), Pair("digest b", "b"), Pair("digest c", "c")
FAR = 3600.0


class FakeRemote(RemoteScorer):
    """Scores texts from a table; notes what it is asked, and the time that it is given."""

    def __init__(self, dialect: Any = "cohere", **scores: float) -> None:
        args = ProviderArgs(base_url="http://localhost", dialect=dialect, model="m")
        super().__init__(args, Http())
        self.scores = scores
        self.asked: list[list[str]] = []
        self.times: list[float] = []
        self.error: OnepassError | None = None

    async def score(self, query: str, pairs: Sequence[Pair], timeout_s: float) -> ScoreAnswer:
        self.asked.append([pair.text for pair in pairs])
        self.times.append(timeout_s)
        if self.error is not None:
            raise self.error
        missing = PairScore(None, None, reason="no score for this text")
        scores = tuple(
            PairScore(None, self.scores[pair.text]) if pair.text in self.scores else missing
            for pair in pairs
        )
        return ScoreAnswer(self.args.label, scores, Tally(passes=len(pairs)))


async def searched(
    client: RemoteClient, *pairs: Pair, tenant: str = "t", within_s: float = FAR
) -> ScoreAnswer:
    return await client.for_search(tenant, time.monotonic() + within_s)("q", pairs)


def relevances(answer: ScoreAnswer) -> list[tuple[float | None, str]]:
    return [(score.relevance, score.came_by) for score in answer.scores]


async def test_what_was_paid_for_is_not_asked_again_and_is_counted_as_cached() -> None:
    remote = FakeRemote(a=0.1, b=0.2, c=0.3)
    client = RemoteClient(remote)
    first = await searched(client, A, B)
    assert (relevances(first), first.tally) == ([(0.1, "pass"), (0.2, "pass")], Tally(passes=2))
    second = await searched(client, B, C, A)
    assert relevances(second) == [(0.2, "cache"), (0.3, "pass"), (0.1, "cache")]
    assert (second.model, second.tally) == ("cohere/m", Tally(passes=1, cached=2))
    third = await searched(client, A)
    assert (third.model, third.tally) == ("cohere/m", Tally(cached=1))
    assert remote.asked == [["a", "b"], ["c"]]


async def test_a_tenant_never_meets_anothers_cache() -> None:
    remote = FakeRemote(a=0.1)
    client = RemoteClient(remote)
    await searched(client, A, tenant="t")
    answer = await searched(client, A, tenant="u")
    assert (remote.asked, answer.tally) == ([["a"], ["a"]], Tally(passes=1))


async def test_a_rerank_and_a_search_share_their_scores() -> None:
    remote = FakeRemote(a=0.1)
    client = RemoteClient(remote)
    await searched(client, A)
    rerank = client.for_rerank("t", time.monotonic() + FAR, AS_CONFIGURED)
    assert (await rerank("q", [A])).tally == Tally(cached=1)


async def test_a_judge_that_ranks_lists_has_no_score_to_keep() -> None:
    remote = FakeRemote("llm", a=0.1)
    client = RemoteClient(remote)
    for _ in range(2):
        assert (await searched(client, A)).tally == Tally(passes=1)
    assert remote.asked == [["a"], ["a"]]


async def test_a_text_that_got_no_score_is_asked_for_again() -> None:
    remote = FakeRemote(a=0.1)
    client = RemoteClient(remote)
    for _ in range(2):
        answer = await searched(client, A, B)
        assert [score.relevance for score in answer.scores] == [0.1, None]
    assert remote.asked == [["a", "b"], ["b"]]


async def test_a_service_that_failed_is_left_alone_until_its_pause_is_over() -> None:
    remote = FakeRemote(a=0.1, b=0.2)
    client = RemoteClient(remote, pause_s=0.05)
    await searched(client, A)
    remote.error = Unavailable("cohere/m answered 503")
    with pytest.raises(Unavailable, match="answered 503"):
        await searched(client, B)
    with pytest.raises(Unavailable, match="cohere/m is down"):
        await searched(client, B)
    assert (remote.asked, client.breaker.is_open) == ([["a"], ["b"]], True)
    assert (await searched(client, A)).tally == Tally(cached=1)
    remote.error = None
    while client.breaker.is_open:
        await asyncio.sleep(0.01)
    assert (await searched(client, B)).tally == Tally(passes=1)
    assert (remote.asked, client.breaker.opened) == ([["a"], ["b"], ["b"]], 1)


async def test_a_refused_request_closes_the_service_to_nobody() -> None:
    client = RemoteClient(remote := FakeRemote(b=0.2))
    remote.error = Refused("cohere/m answered 422")
    with pytest.raises(Refused):
        await searched(client, A, tenant="t")
    remote.error = None
    assert relevances(await searched(client, B, tenant="u")) == [(0.2, "pass")]
    assert not client.breaker.is_open


async def test_a_deadline_missed_in_fair_time_is_the_services_fault() -> None:
    client = RemoteClient(remote := FakeRemote())
    remote.error = DeadlineExceeded("cohere/m gave no answer in time")
    with pytest.raises(DeadlineExceeded):
        await searched(client, A)
    assert client.breaker.is_open
    await client.close()


async def test_a_caller_in_a_hurry_says_nothing_of_the_services_health() -> None:
    client = RemoteClient(remote := FakeRemote())
    remote.error = DeadlineExceeded("cohere/m gave no answer in time")
    with pytest.raises(DeadlineExceeded):
        await searched(client, A, within_s=1.4)
    assert (len(remote.asked), client.breaker.is_open) == (1, False)


async def test_without_time_nothing_is_asked_and_what_is_known_is_still_told() -> None:
    remote = FakeRemote(a=0.1)
    client = RemoteClient(remote)
    await searched(client, A)
    with pytest.raises(DeadlineExceeded, match="no time is left"):
        await searched(client, B, within_s=0.4)  # less than what a search keeps for its answer
    assert relevances(await searched(client, A, within_s=0.4)) == [(0.1, "cache")]
    assert (remote.asked, client.breaker.is_open) == ([["a"]], False)


async def test_a_ranking_may_take_what_is_left_of_the_time_whatever_a_try_may() -> None:
    client = RemoteClient(remote := FakeRemote(a=0.1))
    score = client.for_search("t", (begun := time.monotonic()) + FAR)
    await score("q", [A])
    passed_s = time.monotonic() - begun
    assert FAR - 0.5 - passed_s <= remote.times[0] <= FAR - 0.5


async def test_a_rerank_may_use_the_time_that_a_search_keeps_for_its_answer() -> None:
    client = RemoteClient(remote := FakeRemote(a=0.1))
    rerank = client.for_rerank("t", time.monotonic() + 0.4, AS_CONFIGURED)
    await rerank("q", [A])
    assert 0.0 < remote.times[0] <= 0.4
