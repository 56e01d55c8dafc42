"""The Composer's configuration and its reranking, on a plain object with scripted handles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from deployments.composer import Composer
from deployments.config import AppArgs
from deployments.inference.truncation import Truncation
from deployments.options import ConfigError
from deployments.ranking import RankedText
from pipeline.scoring import PairScore, ScoreAnswer, Tally
from tests.deployments.handles import ScriptedHandle

NO_HANDLE: Any = object()


@pytest.fixture
async def composer() -> AsyncIterator[Composer]:
    owner = Composer(AppArgs(), NO_HANDLE, None, NO_HANDLE, NO_HANDLE)
    yield owner
    await owner.close()


async def test_user_config_overrides_args_and_leaves_the_rest(composer: Composer) -> None:
    composer.reconfigure({"top_k": 30, "corrective": {"enabled": True}})
    assert (composer.defaults.top_k, composer.defaults.final_top_k) == (30, 10)
    assert composer.defaults.corrective.correct_threshold == 0.7
    composer.reconfigure({})
    assert composer.defaults == AppArgs().search


async def test_a_wrong_user_config_stops_the_start(composer: Composer) -> None:
    with pytest.raises(ConfigError, match="top_k"):
        composer.reconfigure({"top_k": 0})


async def test_a_wrong_change_of_user_config_is_shown_and_the_old_one_stays(
    composer: Composer,
) -> None:
    composer.reconfigure({"top_k": 30})
    composer.reconfigure({"top_k": 0})
    status = await composer.status()
    assert (composer.defaults.top_k, status["search"]["top_k"]) == (30, 30)
    assert "top_k" in status["config_error"]
    composer.reconfigure({"top_k": 40})
    status = await composer.status()
    assert (composer.defaults.top_k, status["config_error"]) == (40, None)


async def test_switching_on_what_needs_a_scorer_is_refused_without_one() -> None:
    owner = Composer(AppArgs(scorer=None), NO_HANDLE, None, None, NO_HANDLE)
    with pytest.raises(ConfigError, match="needs a scorer"):
        owner.reconfigure({"rerank": {"enabled": True}})
    await owner.close()


async def test_a_rerank_hands_its_limits_down_and_what_the_model_saw_up() -> None:
    scores = (PairScore(-1.0, 0.25, tokens=7), PairScore(2.0, 0.75, truncated=True, tokens=12))
    scorer: Any = ScriptedHandle(ScoreAnswer("m@1", scores, Tally(passes=2, tokens=19)))
    owner = Composer(AppArgs(), NO_HANDLE, None, scorer, NO_HANDLE)
    truncation = Truncation("left", max_document_tokens=9)
    answer = await owner.rerank("t", "q", ["a", "b"], truncation, 60_000)
    assert answer.ranked == (
        RankedText(1, 0.75, 2.0, True, 12),
        RankedText(0, 0.25, -1.0, False, 7),
    )
    ((_, (_, _, _, sent, _)),) = scorer.sent
    assert sent == truncation
    await owner.close()
