"""Ranking plain texts."""

from __future__ import annotations

import pytest

from deployments.ranking import RankedText, rerank_texts
from pipeline.errors import DeadlineExceeded, Unavailable
from pipeline.scoring import PairScore, Score, ScoreAnswer, Tally
from tests.fakes import CountingScorer


def answering(*scores: PairScore) -> Score:
    async def score(query: str, pairs: object) -> ScoreAnswer:
        return ScoreAnswer("fake@1", scores, Tally(passes=len(scores)))

    return score


async def test_results_name_input_places_best_first() -> None:
    answer = await rerank_texts("q", ["bad", "good", "fair"], answering(*map(of, (-2, 5, 1))))
    assert [(one.place, one.logit) for one in answer.ranked] == [(1, 5.0), (2, 1.0), (0, -2.0)]
    assert (answer.model, answer.unscored) == ("fake@1", ())


async def test_equal_texts_share_a_pass_and_equal_scores_keep_their_order() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 1.0, "c": 2.0})
    answer = await rerank_texts("q", ["b", "a", "b", "c"], scorer)
    assert [one.place for one in answer.ranked] == [3, 0, 1, 2]
    assert sorted(scorer.asked) == ["a", "b", "c"]


async def test_strong_logits_are_told_apart_where_relevance_is_not() -> None:
    scores = [PairScore(40.0, 1.0), PairScore(41.0, 1.0)]
    answer = await rerank_texts("q", ["a", "b"], answering(*scores))
    assert [one.place for one in answer.ranked] == [1, 0]


async def test_a_score_without_a_logit_is_sorted_by_relevance() -> None:
    scores = [PairScore(None, 0.2), PairScore(None, 0.9, truncated=True, tokens=7)]
    answer = await rerank_texts("q", ["a", "b"], answering(*scores))
    assert answer.ranked[0] == RankedText(1, 0.9, None, True, 7)


async def test_a_text_that_could_not_be_scored_is_named() -> None:
    scores = [PairScore(None, None, reason="poisoned"), of(1)]
    answer = await rerank_texts("q", ["a", "b"], answering(*scores))
    assert ([one.place for one in answer.ranked], answer.unscored) == ([1], (0,))


async def test_half_a_ranking_is_none() -> None:
    poisoned = PairScore(None, None, reason="poisoned")
    late = PairScore(None, None, reason="not scored in time", late=True)
    with pytest.raises(DeadlineExceeded):
        await rerank_texts("q", ["a", "b", "c"], answering(poisoned, of(1), late))
    with pytest.raises(Unavailable, match="poisoned"):
        await rerank_texts("q", ["a", "b"], answering(poisoned, poisoned))


def of(logit: float) -> PairScore:
    return PairScore(float(logit), 1 / (1 + 2.718281828459045**-logit))
