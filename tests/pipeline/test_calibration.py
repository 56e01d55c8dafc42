from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.calibration import MIN_JUDGED, Bin, Calibration, Errors, fit, histogram, judge
from pipeline.errors import InvalidInput

HIGH = [0.9] * 20
LOW = [0.1] * 20


def test_thresholds_of_separate_samples_lie_between_them() -> None:
    assert fit(HIGH, LOW) == Calibration(
        correct_threshold=0.5,
        incorrect_threshold=0.5,
        errors=Errors(20, 20, lost=0.0, false=0.0, found=1.0, dropped=1.0),
    )


def test_as_many_of_the_relevant_are_lost_as_is_allowed() -> None:
    relevant = [0.2, 0.3, *[0.9] * 18]
    assert fit(relevant, LOW, lost=0.0).incorrect_threshold == 0.15
    one_lost = fit(relevant, LOW, lost=0.05)
    assert (one_lost.incorrect_threshold, one_lost.errors.lost) == (0.25, 0.05)
    assert fit(relevant, LOW, lost=0.1).incorrect_threshold == 0.6


def test_the_correct_threshold_keeps_out_what_would_be_too_many_false() -> None:
    irrelevant = [*[0.1] * 17, 0.4, 0.5, 0.6]
    relevant = [0.3, *[0.9] * 19]
    strict = fit(relevant, irrelevant, lost=0.0, false=0.0)
    assert (strict.incorrect_threshold, strict.correct_threshold) == (0.2, 0.75)
    assert strict.errors == Errors(20, 20, lost=0.0, false=0.0, found=0.95, dropped=0.85)
    one_false = fit(relevant, irrelevant, lost=0.0, false=0.05)
    assert (one_false.correct_threshold, one_false.errors.false) == (0.55, 0.05)


def test_scores_close_together_are_parted_by_as_many_digits_as_it_takes() -> None:
    fitted = fit([0.0004] * 20, [0.0001] * 20)
    assert fitted.incorrect_threshold == 0.0003
    assert fitted.errors.lost == 0.0
    assert fitted.errors.dropped == 1.0


def test_a_score_at_a_threshold_is_correct_and_not_dropped() -> None:
    assert judge(0.5, 0.5, [0.5], [0.5]) == Errors(1, 1, lost=0.0, false=0.5, found=1.0, dropped=0)
    assert judge(0.5, 0.3, [0.3], [0.29]).lost == 0.0


def test_a_share_of_nothing_is_none() -> None:
    assert judge(0.5, 0.5, [], []) == Errors(0, 0, lost=None, false=None, found=None, dropped=None)
    assert judge(0.5, 0.1, [0.2], [0.2]).false is None


@pytest.mark.parametrize(
    ("relevant", "irrelevant", "message"),
    [
        (HIGH[:19], LOW, "at least 20 texts judged relevant, and there are 19"),
        (HIGH, [], "at least 20 texts judged irrelevant, and there are 0"),
        ([*HIGH, 1.5], LOW, "relevance must lie in"),
        ([*HIGH, float("nan")], LOW, "relevance must lie in"),
        (LOW, HIGH, "no threshold keeps the irrelevant among the correct to 5.0%"),
    ],
)
def test_what_cannot_be_fitted_is_refused_by_what_is_missing(
    relevant: list[float], irrelevant: list[float], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        fit(relevant, irrelevant)


@pytest.mark.parametrize("name", ["lost", "false"])
def test_an_error_of_one_or_more_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        fit(HIGH, LOW, **{name: 1.0})


def test_a_histogram_counts_both_kinds_and_the_last_bin_holds_one() -> None:
    assert histogram([0.5, 1.0], [0.0, 0.49], bins=2) == (
        Bin(0.0, 0.5, relevant=0, irrelevant=2),
        Bin(0.5, 1.0, relevant=2, irrelevant=0),
    )


SCORES = st.floats(0, 1)
SAMPLE = st.lists(SCORES, min_size=MIN_JUDGED, max_size=60)
SHARE = st.floats(0, 0.5)


@given(SAMPLE, SAMPLE, SHARE, SHARE)
def test_fitted_thresholds_keep_to_the_errors_and_could_not_be_bolder(
    relevant: list[float], irrelevant: list[float], lost: float, false: float
) -> None:
    try:
        fitted = fit(relevant, irrelevant, lost=lost, false=false)
    except InvalidInput:
        return
    correct, incorrect = fitted.correct_threshold, fitted.incorrect_threshold
    assert 0 <= incorrect <= correct <= 1
    errors = fitted.errors
    assert errors.lost is not None
    assert errors.lost <= lost + 1e-8
    assert errors.false is not None
    assert errors.false <= false + 1e-8
    lowest_kept = min(score for score in relevant if score >= incorrect)
    assert sum(score <= lowest_kept for score in relevant) / len(relevant) > lost - 1e-8
    for lower in [score for score in [*relevant, *irrelevant] if incorrect <= score < correct]:
        bolder = judge(lower, incorrect, relevant, irrelevant)
        assert bolder.false is None or bolder.false > false - 1e-8
