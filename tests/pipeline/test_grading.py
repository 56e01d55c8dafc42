from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvalidInput
from pipeline.grading import Thresholds, action, grade_counts, grade_hits, is_incorrect
from pipeline.hits import Hit
from pipeline.scoring import Stamped, Tally, stamp_hits
from pipeline.stamps import GRADE, Grade
from tests.fakes import CountingScorer, hit


async def graded(
    logits: dict[str, float], thresholds: Thresholds | None, *unscored: str
) -> tuple[Hit, ...]:
    hits = [hit(identity) for identity in [*logits, *unscored]]
    stamped = await stamp_hits("q", hits, None, CountingScorer(logits))
    return grade_hits(stamped, thresholds).hits


def grades(hits: tuple[Hit, ...]) -> list[str | None]:
    return [hit.grade.value if hit.grade else None for hit in hits]


async def test_a_threshold_between_0_and_1_is_not_compared_with_a_logit() -> None:
    hits = await graded({"a": 7.4, "b": 0.6, "c": -3.0}, Thresholds(0.5, 0.5))
    assert grades(hits) == ["correct", "correct", "incorrect"]


async def test_the_same_logit_has_the_same_grade_in_any_company() -> None:
    alone = await graded({"a": 0.2}, Thresholds(0.7, 0.3))
    among = await graded({"x": 9.0, "a": 0.2, "b": 0.7}, Thresholds(0.7, 0.3))
    assert (grades(alone), grades(among)) == (["ambiguous"], ["correct", "ambiguous", "ambiguous"])


async def test_a_grade_carries_the_thresholds_that_gave_it() -> None:
    (only,) = await graded({"a": 0.0}, Thresholds(0.5, 0.4))
    assert only.metadata[GRADE] == Grade("correct", 0.5, 0.4)


async def test_a_hit_without_a_score_gets_no_grade() -> None:
    hits = await graded({"a": 5.0}, Thresholds(), "unscored")
    assert grades(hits) == ["correct", None]


async def test_without_thresholds_nothing_is_graded_and_an_older_grade_goes() -> None:
    hits = await graded({"a": 5.0}, Thresholds())
    stamped = Stamped(hits, "fake@1", Tally())
    assert grades(grade_hits(stamped, None).hits) == [None]


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ({"a": 5.0, "b": -5.0}, "correct"),
        ({"a": -5.0, "b": -5.0}, "incorrect"),
        ({"a": 0.0, "b": -5.0}, "ambiguous"),
        ({}, None),
    ],
)
async def test_the_action_follows_the_best_grade_and_is_incorrect_only_if_all_are(
    logits: dict[str, float], expected: str | None
) -> None:
    assert action(await graded(logits, Thresholds())) == expected


async def test_an_unscored_hit_does_not_decide_the_action() -> None:
    assert action(await graded({"a": -5.0}, Thresholds(), "unscored")) == "incorrect"
    assert action(await graded({}, Thresholds(), "unscored")) is None


async def test_grades_are_counted_with_those_that_have_none() -> None:
    hits = await graded({"a": 5.0, "b": 0.0, "c": -5.0, "d": -5.0}, Thresholds(), "unscored")
    assert grade_counts(hits) == {"correct": 1, "ambiguous": 1, "incorrect": 2, "ungraded": 1}
    assert [is_incorrect(hit) for hit in hits] == [False, False, True, True, False]


@pytest.mark.parametrize("pair", [(0.3, 0.7), (1.1, 0.3), (0.7, -0.1), (math.nan, 0.3)])
def test_thresholds_outside_0_to_1_or_crossing_are_refused(pair: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput):
        Thresholds(*pair)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_relevance_never_has_a_lower_grade(a: float, b: float, cut: float) -> None:
    order = ["incorrect", "ambiguous", "correct"]
    thresholds = Thresholds(max(cut, 0.5), min(cut, 0.5))
    low, high = sorted((a, b))
    assert order.index(thresholds.grade(low).value) <= order.index(thresholds.grade(high).value)
