"""Several scorers, asked one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from deployments.breaker import Breaker
from deployments.config import AppArgs
from deployments.inference.truncation import Truncation
from deployments.providers.http import Http
from deployments.remote_client import RemoteClient, without_asking
from deployments.scorer_client import ScorerClient
from deployments.scorers import Client, Scorers, make_scorers, scorer_status, thresholds_by_model
from pipeline.errors import DeadlineExceeded, OnepassError, Overloaded, Unavailable
from pipeline.grading import Thresholds
from pipeline.scoring import Pair, Score, ScoreAnswer, Tally
from tests.deployments.handles import ScriptedHandle
from tests.fakes import CountingScorer

PAIRS = [Pair("1", "a"), Pair("2", "b")]
DOWN = Unavailable("down")
FAR = 3600.0
COHERE = {"dialect": "cohere", "base_url": "http://localhost:1", "model": "m"}
JINA = {"dialect": "jina", "base_url": "http://localhost:1", "model": "j"}


class FakeClient:
    """A scorer that answers or raises; notes each deadline, and the texts that it was asked."""

    def __init__(self, model: str, error: OnepassError | None = None) -> None:
        self.breaker = Breaker(model, without_asking)
        self.scorer = CountingScorer({"a": 1.0, "b": 2.0}, model)
        self.error = error
        self.deadlines: list[float] = []
        self.truncations: list[Truncation | None] = []
        self.tenants: list[str] = []
        self.closed = False

    def for_search(self, tenant: str, deadline: float) -> Score:
        return self._scoring(tenant, deadline, None)

    def for_rerank(self, tenant: str, deadline: float, truncation: Truncation) -> Score:
        return self._scoring(tenant, deadline, truncation)

    async def close(self) -> None:
        self.closed = True

    def _scoring(self, tenant: str, deadline: float, truncation: Truncation | None) -> Score:
        async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
            self.tenants.append(tenant)
            self.deadlines.append(deadline)
            self.truncations.append(truncation)
            if self.error is not None:
                raise self.error
            return await self.scorer(query, pairs)

        return score


async def scored(scorers: Scorers, deadline: float | None = None) -> ScoreAnswer:
    until = time.monotonic() + FAR if deadline is None else deadline
    return await scorers.for_search("t", until)("q", PAIRS)


async def test_the_first_alone_is_asked_while_it_answers() -> None:
    first, second = FakeClient("first@1"), FakeClient("second@1")
    scorers = Scorers([first, second])
    answer = await scored(scorers)
    assert (answer.model, answer.tally) == ("first@1", Tally(passes=2))
    assert (second.deadlines, scorers.fallbacks_used) == ([], 0)


@pytest.mark.parametrize("error", [DOWN, DeadlineExceeded("late")])
async def test_the_next_scores_the_whole_pool_when_one_fails_and_that_is_counted(
    error: OnepassError,
) -> None:
    first, second, third = (
        FakeClient("first@1", error),
        FakeClient("second@1", error),
        FakeClient("third@1"),
    )
    scorers = Scorers([first, second, third])
    answer = await scored(scorers)
    assert (answer.model, third.scorer.asked) == ("third@1", ["a", "b"])
    assert ([*first.tenants, *third.tenants], scorers.fallbacks_used) == (["t", "t"], 2)


async def test_the_lasts_failure_is_everyones() -> None:
    scorers = Scorers([FakeClient("first@1", DOWN), FakeClient("second@1", Unavailable("too"))])
    with pytest.raises(Unavailable, match="too"):
        await scored(scorers)


async def test_an_overloaded_scorer_is_not_a_failed_one() -> None:
    second = FakeClient("second@1")
    scorers = Scorers([FakeClient("first@1", Overloaded("full", None, 1)), second])
    with pytest.raises(Overloaded):
        await scored(scorers)
    assert (second.deadlines, scorers.fallbacks_used) == ([], 0)


async def test_a_scorer_has_half_of_what_is_left_while_another_stands_behind_it() -> None:
    clients = [FakeClient("1", DOWN), FakeClient("2", DOWN), FakeClient("3")]
    begun = time.monotonic()
    deadline = begun + FAR
    await scored(Scorers(clients), deadline)
    (first,), (second,), (last,) = (client.deadlines for client in clients)
    assert first - begun == pytest.approx(FAR / 2, rel=0.1)
    assert second - begun == pytest.approx(FAR / 2, rel=0.1)  # half again of what was left unused
    assert last == deadline


async def test_a_lone_scorer_has_all_of_the_time() -> None:
    only, deadline = FakeClient("1"), time.monotonic() + FAR
    await scored(Scorers([only]), deadline)
    assert only.deadlines == [deadline]


async def test_a_rerank_hands_its_limits_to_whoever_scores() -> None:
    first, second = FakeClient("1", DOWN), FakeClient("2")
    truncation = Truncation("left", max_document_tokens=9)
    score = Scorers([first, second]).for_rerank("t", time.monotonic() + FAR, truncation)
    await score("q", PAIRS)
    assert first.truncations == second.truncations == [truncation]


async def test_closing_closes_every_client() -> None:
    clients = [FakeClient("1"), FakeClient("2")]
    await Scorers(clients).close()
    assert [client.closed for client in clients] == [True, True]


def made(handle: Any = None, **args: Any) -> Scorers | None:
    return make_scorers(AppArgs.model_validate(args), handle, Http())


def kinds(clients: Sequence[Client]) -> list[tuple[type, str]]:
    return [
        (type(one), one.remote.args.label if isinstance(one, RemoteClient) else "")
        for one in clients
    ]


def test_the_configured_scorer_comes_first_and_its_fallbacks_in_their_order() -> None:
    local = made(ScriptedHandle(), fallback=[COHERE, JINA])
    assert local is not None
    assert kinds(local.clients) == [
        (ScorerClient, ""),
        (RemoteClient, "cohere/m"),
        (RemoteClient, "jina/j"),
    ]
    assert (local.local, local.model) == (local.clients[0], None)
    remote = made(scorer=COHERE)
    assert remote is not None
    assert (kinds(remote.clients), remote.local) == ([(RemoteClient, "cohere/m")], None)
    assert remote.model == "cohere/m"
    assert made(scorer=None) is None


def test_a_fallback_without_thresholds_grades_nothing_and_the_first_has_the_searchs_own() -> None:
    own = {"correct_threshold": 0.6, "incorrect_threshold": 0.2}
    args = AppArgs.model_validate({"scorer": COHERE, "fallback": [JINA]})
    assert thresholds_by_model(args) == {"jina/j": None}
    args = AppArgs.model_validate({"scorer": {**COHERE, **own}, "fallback": [{**JINA, **own}]})
    assert thresholds_by_model(args) == {
        "cohere/m": Thresholds(0.6, 0.2),
        "jina/j": Thresholds(0.6, 0.2),
    }
    assert thresholds_by_model(AppArgs()) == {}


async def test_the_status_says_which_scorers_there_are_and_which_are_down() -> None:
    remote = RemoteClient(made_remote())
    scorers = Scorers([FakeClient("local@1"), remote])
    remote.breaker.trip()
    scorers.fallbacks_used = 3
    assert scorer_status(scorers) == {
        "scorer_down": False,
        "model": None,
        "fallbacks_used": 3,
        "remote": [{"model": "cohere/m", "down": True, "invalid_results": 0}],
    }
    await remote.close()
    assert scorer_status(None)["scorer_down"] is None


def made_remote() -> Any:
    scorers = made(scorer=COHERE)
    assert scorers is not None
    (client,) = scorers.clients
    assert isinstance(client, RemoteClient)
    return client.remote


async def test_a_search_through_a_failing_service_is_answered_by_the_next() -> None:
    """Nobody listens at the first's address."""
    cohere = {**COHERE, "retries": 0, "timeout_ms": 2000}
    scorers = made(scorer=cohere, fallback=[])
    assert scorers is not None
    chain = Scorers([*scorers.clients, FakeClient("next@1")])
    for _ in range(2):
        assert (await scored(chain)).model == "next@1"
    assert (chain.breaker.is_open, chain.fallbacks_used) == (True, 2)
    await chain.close()


async def test_a_local_scorer_counts_the_tokens() -> None:
    handle: Any = ScriptedHandle([3, 4])
    scorers = make_scorers(AppArgs(), handle, Http())
    assert scorers is not None
    assert scorers.local is not None
    assert await scorers.local.count_tokens(["a", "b"], 1.0) == [3, 4]
