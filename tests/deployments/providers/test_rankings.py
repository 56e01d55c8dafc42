"""Which entries of a reranker's answer count."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.providers.rankings import Scale, read_entries, settle
from pipeline.scoring import PairScore

HUGE = pytest.param(10**400, id="huge")


def relevances(ranking: list[tuple[object, object]], count: int) -> dict[int, float | None]:
    return {
        index: score.relevance
        for index, score in settle(ranking, count, "relevance").by_index.items()
    }


def test_scores_go_to_the_positions_that_the_provider_names() -> None:
    assert relevances([(2, 0.9), (0, 0.5), (1, 0.1)], 3) == {0: 0.5, 1: 0.1, 2: 0.9}


def test_a_provider_index_given_twice_counts_once() -> None:
    scores = settle([(0, 0.9), (0, 0.2), (1, 0.3)], 2, "relevance")
    assert scores.by_index == {0: PairScore(None, 0.9), 1: PairScore(None, 0.3)}
    assert scores.invalid == 1


@pytest.mark.parametrize("index", [-1, 2, 10**30, None, "0", 0.0, True, False, [0]])
def test_an_index_that_is_no_position_is_ignored_and_counted(index: Any) -> None:
    scores = settle([(index, 0.9), (1, 0.3)], 2, "relevance")
    assert scores.by_index == {1: PairScore(None, 0.3)}
    assert scores.invalid == 1


@pytest.mark.parametrize(
    "score", [None, "0.9", True, math.nan, math.inf, -0.01, 1.01, 7.4, HUGE, {}, [0.9]]
)
def test_a_score_that_is_no_relevance_is_ignored_and_counted(score: Any) -> None:
    scores = settle([(0, score), (1, 0.3)], 2, "relevance")
    assert scores.by_index == {1: PairScore(None, 0.3)}
    assert scores.invalid == 1


def test_an_unsound_score_leaves_its_position_to_a_sound_one() -> None:
    assert relevances([(0, None), (0, 0.4)], 1) == {0: 0.4}


def test_zero_and_one_are_relevances() -> None:
    assert relevances([(0, 0), (1, 1)], 2) == {0: 0.0, 1: 1.0}


def test_logits_become_relevances_whether_or_not_they_look_like_some() -> None:
    scores = settle([(0, 7.4), (1, 0.6), (2, -3), (3, 0.2)], 4, "logit").by_index
    assert [score.logit for score in scores.values()] == [7.4, 0.6, -3.0, 0.2]
    rounded = [round(score.relevance or 0.0, 4) for score in scores.values()]
    assert rounded == [0.9994, 0.6457, 0.0474, 0.5498]


def test_far_logits_overflow_nothing() -> None:
    scores = settle([(0, -1e6), (1, 1e6)], 2, "logit").by_index
    assert [score.relevance for score in scores.values()] == [0.0, 1.0]


@pytest.mark.parametrize("score", [None, "7.4", True, math.nan, -math.inf])
def test_a_score_that_is_no_logit_is_ignored_and_counted(score: Any) -> None:
    assert settle([(0, score)], 1, "logit").invalid == 1


def test_entries_that_are_no_objects_or_lack_members_are_kept_as_nothing() -> None:
    entries = [{"index": 0, "score": 0.5}, 7, {"index": 1}, {"score": 0.2}, None]
    assert read_entries(entries, "score") == [
        (0, 0.5),
        (None, None),
        (1, None),
        (None, 0.2),
        (None, None),
    ]


@pytest.mark.parametrize("entries", [None, {}, "[]", 3])
def test_what_is_no_list_has_no_entries(entries: Any) -> None:
    with pytest.raises(ValueError, match="no list of results"):
        read_entries(entries, "score")


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.text(max_size=2))


@given(
    st.lists(st.tuples(ANYTHING, ANYTHING), max_size=12),
    st.integers(0, 6),
    st.sampled_from(("relevance", "logit")),
)
def test_whatever_is_answered_only_sound_scores_come_out(
    ranking: list[tuple[object, object]], count: int, scale: Scale
) -> None:
    scores = settle(ranking, count, scale)
    assert len(scores.by_index) + scores.invalid == len(ranking)
    for index, score in scores.by_index.items():
        assert 0 <= index < count
        assert score.relevance is not None
        assert 0.0 <= score.relevance <= 1.0
        assert (score.logit is None) == (scale == "relevance")
