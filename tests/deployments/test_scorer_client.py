"""What of a request reaches the Scorer, and what its answers say of its health."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deployments.inference.truncation import AS_CONFIGURED, Side, Truncation
from deployments.scorer_client import CHARACTER_CAP, ScorerClient
from pipeline.errors import DeadlineExceeded, OnepassError, Unavailable
from pipeline.scoring import Pair, PairScore, Score, ScoreAnswer, Tally
from tests.deployments.handles import ScriptedHandle

ANSWER = ScoreAnswer("m@1", (PairScore(1.0, 0.7),), Tally(passes=1))


SCORED = PairScore(1.0, 0.7)
LATE = PairScore(None, None, reason="no time", late=True)
POISONED = PairScore(None, None, reason="poisoned")


async def sent_for(truncation: Truncation | None, text: str) -> tuple[Any, ...]:
    """Score one text as a rerank with this truncation, or as a search; return what was sent."""
    handle: Any = ScriptedHandle(ANSWER)
    client = ScorerClient(handle, 10_000)
    deadline = time.monotonic() + 60
    score: Score = (
        client.for_search("t", deadline)
        if truncation is None
        else client.for_rerank("t", deadline, truncation)
    )
    assert await score("q", [Pair("digest", text)]) == ANSWER
    ((_, arguments),) = handle.sent
    tenant, query, (pair,), sent_truncation, remaining_ms = arguments
    assert (tenant, query, pair.digest, remaining_ms > 0) == ("t", "q", "digest", True)
    return pair.text, sent_truncation


async def test_the_limits_of_a_rerank_are_sent_and_a_search_has_none() -> None:
    limits = Truncation("left", 100, 8)
    assert await sent_for(limits, "text") == ("text", limits)
    assert await sent_for(None, "text") == ("text", AS_CONFIGURED)


@pytest.mark.parametrize(
    ("side", "begins", "ends", "length"),
    [
        ("right", "a", "a", CHARACTER_CAP),
        ("left", "b", "b", CHARACTER_CAP),
        (None, "a", "b", 2 * CHARACTER_CAP),
    ],
)
async def test_a_long_text_is_sent_as_far_as_the_scorer_may_look_at_it(
    side: Side | None, begins: str, ends: str, length: int
) -> None:
    text, _ = await sent_for(Truncation(side), "a" * 500_000 + "b" * 500_000)
    assert (text[0], text[-1], len(text)) == (begins, ends, length)


@pytest.mark.parametrize("side", ["right", "left", None])
async def test_one_character_more_than_the_widest_window_holds_is_still_sent(
    side: Side | None,
) -> None:
    text = "a" * (16 * 8192 + 1)
    assert (await sent_for(Truncation(side), text))[0] == text


async def answered(
    *scores: PairScore, within_s: float = 60.0
) -> tuple[ScoreAnswer | OnepassError, bool]:
    """Return what a rerank gets where the Scorer answers so, and whether it counts as down."""
    handle: Any = ScriptedHandle(ScoreAnswer("m@1", scores, Tally()))
    client = ScorerClient(handle, 10_000)
    score = client.for_rerank("t", time.monotonic() + within_s, AS_CONFIGURED)
    result: ScoreAnswer | OnepassError
    try:
        result = await score("q", [Pair(str(place), "text") for place in range(len(scores))])
    except OnepassError as error:
        result = error
    is_down = client.breaker.is_open
    await client.close()
    return result, is_down


async def test_an_answer_in_which_every_pair_was_late_is_a_missed_deadline() -> None:
    result, is_down = await answered(LATE, LATE)
    assert isinstance(result, DeadlineExceeded)
    assert (result.message, is_down) == ("no time", True)


async def test_a_late_answer_to_a_caller_in_a_hurry_says_nothing_of_the_scorers_health() -> None:
    result, is_down = await answered(LATE, within_s=0.9)
    assert isinstance(result, DeadlineExceeded)
    assert not is_down


async def test_pairs_that_nobody_can_score_are_a_failure_and_the_scorer_is_well() -> None:
    result, is_down = await answered(POISONED, POISONED)
    assert isinstance(result, Unavailable)
    assert (result.message, is_down) == ("poisoned", False)


async def test_where_no_pair_has_a_score_that_one_was_late_goes_before_all_else() -> None:
    result, is_down = await answered(POISONED, LATE)
    assert isinstance(result, DeadlineExceeded)
    assert is_down


@pytest.mark.parametrize("scores", [(SCORED, LATE, POISONED), (POISONED, SCORED), ()])
async def test_an_answer_with_a_score_or_for_no_pair_is_given_as_it_is(
    scores: tuple[PairScore, ...],
) -> None:
    assert await answered(*scores) == (ScoreAnswer("m@1", scores, Tally()), False)
