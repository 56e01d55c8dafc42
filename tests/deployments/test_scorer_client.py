"""What of a request reaches the Scorer: its limits, and no more of a text than they can need."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deployments.inference.truncation import AS_CONFIGURED, Side, Truncation
from deployments.scorer_client import CHARACTER_CAP, ScorerClient
from pipeline.scoring import Pair, PairScore, Score, ScoreAnswer, Tally
from tests.deployments.handles import ScriptedHandle

ANSWER = ScoreAnswer("m@1", (PairScore(1.0, 0.7),), Tally(passes=1))


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
