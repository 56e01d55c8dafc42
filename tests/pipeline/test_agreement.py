from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.agreement import kendall_tau_b, overlap_at


def test_the_same_order_is_1_and_the_opposite_is_minus_1() -> None:
    assert kendall_tau_b([3.0, 2.0, 1.0], [0.9, 0.5, -4.0]) == 1.0
    assert kendall_tau_b([3.0, 2.0, 1.0], [0.1, 0.2, 0.3]) == -1.0


def test_one_exchanged_pair_of_six_costs_a_third() -> None:
    assert kendall_tau_b([4.0, 3.0, 2.0, 1.0], [4.0, 2.0, 3.0, 1.0]) == pytest.approx(4 / 6)


def test_ties_count_on_neither_side() -> None:
    # Five pairs are ordered on both sides and alike; left orders 5 of the 6, right all of them.
    assert kendall_tau_b([3.0, 2.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.0]) == pytest.approx(
        5 / math.sqrt(30)
    )
    assert kendall_tau_b([2.0, 2.0, 1.0], [2.0, 2.0, 1.0]) == 1.0


@pytest.mark.parametrize(
    ("left", "right"),
    [([], []), ([1.0], [2.0]), ([1.0, 1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0, 1.0])],
)
def test_where_one_side_orders_nothing_there_is_no_correlation(
    left: list[float], right: list[float]
) -> None:
    assert kendall_tau_b(left, right) is None


def test_the_largest_scores_and_infinite_ones_are_compared_too() -> None:
    assert kendall_tau_b([1e308, -1e308, -math.inf], [3.0, 2.0, 1.0]) == 1.0


def test_a_thousand_scores_are_counted_in_full() -> None:
    scores = [float(number) for number in range(1000)]
    assert kendall_tau_b(scores, scores) == 1.0
    assert kendall_tau_b(scores, scores[::-1]) == -1.0


def tau_pair_by_pair(left: list[int], right: list[int]) -> float | None:
    """The definition: concordant less discordant pairs, over the pairs that are no ties."""
    alike = unlike = left_only = right_only = 0
    for one, other in itertools.combinations(range(len(left)), 2):
        a, b = left[one] - left[other], right[one] - right[other]
        alike += a * b > 0
        unlike += a * b < 0
        left_only += a != 0 and b == 0
        right_only += a == 0 and b != 0
    both = alike + unlike
    ordered = math.sqrt((both + left_only) * (both + right_only))
    return (alike - unlike) / ordered if ordered else None


pairs = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=30)


@given(pairs)
def test_it_is_what_counting_pair_by_pair_gives(scores: list[tuple[int, int]]) -> None:
    left, right = [one for one, _ in scores], [other for _, other in scores]
    assert kendall_tau_b(left, right) == pytest.approx(tau_pair_by_pair(left, right))


@given(pairs)
def test_it_is_symmetric_bounded_and_turns_its_sign(scores: list[tuple[int, int]]) -> None:
    left, right = [one for one, _ in scores], [other for _, other in scores]
    tau = kendall_tau_b(left, right)
    assert kendall_tau_b(right, left) == tau
    if tau is not None:
        assert -1.0 <= tau <= 1.0
        assert kendall_tau_b(left, [-score for score in right]) == -tau


@pytest.mark.parametrize(
    ("k", "left", "right", "overlap"),
    [
        (2, ["a", "b", "c"], ["b", "a", "d"], 1.0),
        (2, ["a", "b"], ["a", "c"], 0.5),
        (3, ["a", "b", "c"], ["d", "e", "f"], 0.0),
        (10, ["a", "b"], ["b", "a"], 1.0),  # fewer than k, and all the same
        (10, ["a", "b", "c", "d"], ["a"], 0.25),  # what is missing is no agreement
        (2, ["a", "b", "c", "d"], ["c"], 0.0),
        (1, ["a"], [], 0.0),
        (10, [], [], 1.0),
    ],
)
def test_the_overlap_is_the_common_part_of_the_first_k(
    k: int, left: list[str], right: list[str], overlap: float
) -> None:
    assert overlap_at(k, left, right) == overlap
    assert overlap_at(k, right, left) == overlap


rankings = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(st.integers(1, 10), rankings, rankings)
def test_the_overlap_is_a_fraction_of_what_the_longer_shows(
    k: int, left: list[str], right: list[str]
) -> None:
    shown = max(len(left[:k]), len(right[:k]))
    common = sum(1 for one in left[:k] if one in right[:k])
    assert overlap_at(k, left, right) == (common / shown if shown else 1.0)
