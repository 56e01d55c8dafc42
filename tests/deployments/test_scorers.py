"""Several scorers, asked one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from deployments.breaker import Breaker
from deployments.budget import RESERVE_S
from deployments.config import AppArgs
from deployments.inference.truncation import AS_CONFIGURED, Truncation
from deployments.options import ConfigError
from deployments.providers.http import Http, Refused
from deployments.remote_client import RemoteClient, without_asking
from deployments.scorer_client import ScorerClient
from deployments.scorers import Client, Scorers, make_scorers, scorer_status, thresholds_by_model
from pipeline.errors import DeadlineExceeded, OnepassError, Overloaded, Unavailable
from pipeline.grading import Thresholds
from pipeline.scoring import Pair, PairScore, Score, ScoreAnswer, Tally
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


@pytest.mark.parametrize("error", [DOWN, DeadlineExceeded("late"), Refused("answered 422")])
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


@pytest.mark.parametrize("left_s", [0.4, 0.9, 3.0, FAR])
async def test_a_search_halves_what_is_left_for_scoring_and_a_rerank_all_of_it(
    left_s: float,
) -> None:
    """What a search keeps for its answer is no part of the halves."""
    client = FakeClient("1")
    scorers = Scorers([client, FakeClient("2")])
    deadline = (begun := time.monotonic()) + left_s
    await scored(scorers, deadline)
    await scorers.for_rerank("t", deadline, AS_CONFIGURED)("q", PAIRS)
    ended = time.monotonic()
    search_until, rerank_until = client.deadlines
    for until, reserve_s in ((search_until, RESERVE_S), (rerank_until, 0.0)):
        first, last = (
            (now + max(deadline, now + reserve_s) + reserve_s) / 2 for now in (begun, ended)
        )
        assert first - 1e-6 <= until <= last + 1e-6


async def test_a_healthy_local_scorer_is_asked_though_the_time_is_short() -> None:
    handle: Any = ScriptedHandle(
        local := ScoreAnswer("local@1", (PairScore(1.0, 0.7),) * 2, Tally())
    )
    scorers = Scorers([ScorerClient(handle, 10_000), FakeClient("spare@1")])
    assert await scored(scorers, time.monotonic() + 0.95) == local
    assert scorers.fallbacks_used == 0


async def test_the_next_is_asked_when_a_local_scorer_has_no_time_for_any_pair() -> None:
    late = PairScore(None, None, reason="no time", late=True)
    handle: Any = ScriptedHandle(ScoreAnswer("local@1", (late, late), Tally()))
    scorers = Scorers([ScorerClient(handle, 10_000), FakeClient("spare@1")])
    for _ in range(2):  # the second time it is known to be down
        assert (await scored(scorers)).model == "spare@1"
    assert (len(handle.sent), scorers.breaker.is_open, scorers.fallbacks_used) == (1, True, 2)
    await scorers.clients[0].close()


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
    args = AppArgs.model_validate({"scorer": COHERE, "fallback": [{**JINA, **own}]})
    assert thresholds_by_model(args) == {"jina/j": Thresholds(0.6, 0.2)}
    assert thresholds_by_model(AppArgs()) == {}


@pytest.mark.parametrize("place", ["scorer", "shadow"])
def test_only_a_fallback_has_thresholds_of_its_own(place: str) -> None:
    """Elsewhere they would go before what a request, a corpus and user_config say."""
    own = {**COHERE, "correct_threshold": 0.6, "incorrect_threshold": 0.2}
    with pytest.raises(ConfigError, match="correct_threshold: Extra inputs are not permitted"):
        AppArgs.model_validate({place: own if place == "scorer" else [own]})


@pytest.mark.parametrize(
    "args", [{"scorer": COHERE, "fallback": [COHERE]}, {"fallback": [JINA] * 2}]
)
def test_two_scorers_of_one_name_are_refused_for_their_scores_would_pass_for_one_models(
    args: Any,
) -> None:
    with pytest.raises(ConfigError) as caught:
        AppArgs.model_validate(args)
    assert str(caught.value) == (
        "configuration: fallback: two scorers are called the same; `name` tells them apart"
    )


def test_a_name_tells_two_scorers_apart_and_a_shadow_may_share_one() -> None:
    spare = {**COHERE, "name": "spare"}
    scorers = made(scorer=COHERE, fallback=[spare], shadow=[COHERE, COHERE])
    assert scorers is not None
    assert [label for _, label in kinds(scorers.clients)] == ["cohere/m", "spare/m"]


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
