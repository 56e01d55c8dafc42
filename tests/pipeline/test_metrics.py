from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvalidInput
from pipeline.metrics import (
    Quality,
    best_places,
    mean_quality,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

GRADED = {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.0}


def test_ndcg_sums_linear_gains_over_the_logarithm_of_the_rank() -> None:
    # By hand: (2/1 + 0 + 3/2) / (3/1 + 2/1.58496 + 1/2)
    expected = 3.5 / (3 + 2 / math.log2(3) + 0.5)
    assert ndcg(["b", "d", "a"], GRADED, 3) == pytest.approx(expected, abs=1e-15)
    assert round(expected, 6) == 0.735007


def test_the_best_possible_ranking_has_an_ndcg_of_one() -> None:
    assert ndcg(["a", "b", "c"], GRADED, 10) == 1.0


def test_the_ideal_of_ndcg_is_cut_at_the_same_depth() -> None:
    assert ndcg(["a"], GRADED, 1) == 1.0
    assert ndcg(["b", "a"], GRADED, 1) == pytest.approx(2 / 3)


def test_a_document_below_the_depth_counts_for_nothing() -> None:
    ranking = ["x", "y", "a"]
    assert ndcg(ranking, {"a": 1}, 2) == 0.0
    assert reciprocal_rank(ranking, {"a": 1}, 2) == 0.0
    assert recall(ranking, {"a": 1}, 2) == 0.0
    assert precision(ranking, {"a": 1}, 2) == 0.0


def test_the_reciprocal_rank_is_that_of_the_first_relevant_document() -> None:
    assert reciprocal_rank(["d", "x", "c", "a"], GRADED, 10) == pytest.approx(1 / 3)


def test_recall_counts_relevant_documents_and_precision_divides_by_the_depth() -> None:
    ranking = ["a", "d", "c", "x"]
    assert recall(ranking, GRADED, 4) == pytest.approx(2 / 3)
    assert precision(ranking, GRADED, 4) == 0.5
    assert precision(["a"], GRADED, 10) == 0.1


def test_a_negative_grade_is_not_relevant_and_costs_nothing() -> None:
    assert ndcg(["spam", "a"], {"spam": -2, "a": 1}, 2) == pytest.approx(1 / math.log2(3))


def test_a_document_counts_at_its_best_chunk() -> None:
    assert best_places(["b", "a", "b", "c", "a"]) == ("b", "a", "c")


def test_means_are_over_the_queries_that_have_a_relevant_document() -> None:
    judged = [
        (["a"], {"a": 1.0}),
        (["x", "x", "b"], {"b": 1.0, "c": 1.0}),
        (["x"], {"x": 0.0}),
        (["x"], {}),
    ]
    half = 1 / math.log2(3) / (1 + 1 / math.log2(3))
    quality = mean_quality(judged, 2)
    assert quality.ndcg == pytest.approx((1 + half) / 2)
    assert quality == Quality(2, quality.ndcg, 0.75, 0.75, 0.5, queries=2, left_out=2)


def test_a_query_that_found_nothing_counts_as_zero() -> None:
    quality = mean_quality([([], {"a": 1}), (["a"], {"a": 1})], 10)
    assert (quality.ndcg, quality.recall, quality.queries) == (0.5, 0.5, 2)


def test_a_mean_over_no_query_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no query has a relevant document"):
        mean_quality([(["a"], {"a": 0})], 10)


DOCUMENTS = st.sampled_from("abcdefgh")
GAINS = st.dictionaries(DOCUMENTS, st.integers(0, 4), min_size=1).filter(
    lambda gains: any(gains.values())
)


@given(st.lists(DOCUMENTS, unique=True), GAINS, st.integers(1, 10))
def test_every_measure_lies_between_zero_and_one(
    ranking: list[str], gains: dict[str, float], k: int
) -> None:
    for measure in (ndcg, reciprocal_rank, recall, precision):
        assert 0.0 <= measure(ranking, gains, k) <= 1.0 + 1e-12


@given(GAINS, st.integers(1, 10))
def test_no_ranking_beats_the_one_by_gain(gains: dict[str, float], k: int) -> None:
    ideal = sorted(gains, key=lambda document: -gains[document])
    assert ndcg(ideal, gains, k) == pytest.approx(1.0)
    assert ndcg(sorted(gains), gains, k) <= 1.0 + 1e-12
