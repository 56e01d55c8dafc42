"""Fitting the thresholds of correction to judged relevance scores.

A sample is two lists of relevance in [0, 1]: of texts judged relevant, and of texts judged not.
What a threshold means is what correction does with it: relevance >= correct is correct, relevance
< incorrect is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InvalidInput

# Below this one text moves the error by more than five points.
MIN_JUDGED = 20
# Shares of counts are compared with this much play: 0.05 of 20 texts is one text.
ROUNDING = 1e-9

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Errors:
    """What two thresholds do to a sample of so many `relevant` and `irrelevant` texts.

    `lost` is the share of the relevant that is dropped, `false` the irrelevant share of what is
    graded correct, `found` the share of the relevant that is graded correct, `dropped` that of
    the irrelevant that is dropped. A share of nothing is None.
    """

    relevant: int
    irrelevant: int
    lost: float | None
    false: float | None
    found: float | None
    dropped: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Two thresholds, and their errors on the very sample that they were fitted to."""

    correct_threshold: float
    incorrect_threshold: float
    errors: Errors


@dataclass(frozen=True, slots=True)
class Bin:
    """How many texts have a relevance in [low, high); the last bin has 1 too."""

    low: float
    high: float
    relevant: int
    irrelevant: int


def fit(
    relevant: Sequence[float],
    irrelevant: Sequence[float],
    *,
    lost: float = 0.05,
    false: float = 0.05,
) -> Calibration:
    """Fit both thresholds: the incorrect one as high, the correct one as low as errors allow.

    At most `lost` of the relevant fall below the incorrect threshold; at most `false` of what
    reaches the correct one is irrelevant, so the sample must have the mix that searches bring.
    A threshold lies between two scores of the sample. Raises InvalidInput for fewer than
    MIN_JUDGED texts of a kind, and where no threshold keeps to `false`.
    """
    check_share(lost, "lost")
    check_share(false, "false")
    good, bad = sample_of(relevant, "relevant"), sample_of(irrelevant, "irrelevant")
    seen = np.unique(np.concatenate([good, bad]))
    incorrect = between(seen, float(good[math.floor(lost * len(good) + ROUNDING)]))
    level = lowest_correct(good, bad, np.append(incorrect, seen[seen > incorrect]), false)
    correct = incorrect if level == incorrect else between(seen, level)
    return Calibration(correct, incorrect, judge(correct, incorrect, relevant, irrelevant))


def judge(
    correct_threshold: float,
    incorrect_threshold: float,
    relevant: Sequence[float],
    irrelevant: Sequence[float],
) -> Errors:
    """Say what thresholds do to a sample, such as one that they were not fitted to."""
    good, bad = np.asarray(relevant, np.float64), np.asarray(irrelevant, np.float64)
    found = int((good >= correct_threshold).sum())
    mistaken = int((bad >= correct_threshold).sum())
    return Errors(
        relevant=len(good),
        irrelevant=len(bad),
        lost=share(int((good < incorrect_threshold).sum()), len(good)),
        false=share(mistaken, found + mistaken),
        found=share(found, len(good)),
        dropped=share(int((bad < incorrect_threshold).sum()), len(bad)),
    )


def histogram(
    relevant: Sequence[float], irrelevant: Sequence[float], bins: int = 10
) -> tuple[Bin, ...]:
    """Count both kinds in `bins` equally wide parts of [0, 1]."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    good, bad = np.histogram(relevant, edges)[0], np.histogram(irrelevant, edges)[0]
    return tuple(
        Bin(float(low), float(high), int(ours), int(theirs))
        for low, high, ours, theirs in zip(edges[:-1], edges[1:], good, bad, strict=True)
    )


def check_share(value: float, name: str) -> None:
    if not 0.0 <= value < 1.0:
        raise InvalidInput(f"{name} must lie in [0, 1)", name)


def sample_of(values: Sequence[float], kind: str) -> Values:
    """Return the scores sorted; refuse too few of them, and what is no relevance."""
    if len(values) < MIN_JUDGED:
        raise InvalidInput(
            f"calibration needs the scores of at least {MIN_JUDGED} texts judged {kind}, "
            f"and there are {len(values)}"
        )
    sample = np.sort(np.asarray(values, np.float64))
    if not (sample[0] >= 0.0 and sample[-1] <= 1.0):
        raise InvalidInput("relevance must lie in [0, 1]")
    return sample


def lowest_correct(good: Values, bad: Values, levels: Values, false: float) -> float:
    """Return the lowest of `levels` from which up no more than `false` is irrelevant."""
    right = len(good) - np.searchsorted(good, levels)  # (levels,) relevant at or above each
    wrong = len(bad) - np.searchsorted(bad, levels)
    fits = (right > 0) & (wrong <= false * (right + wrong) + ROUNDING)
    if not fits.any():
        raise InvalidInput(
            f"no threshold keeps the irrelevant among the correct to {false:.1%}: the scores do "
            "not part relevant from irrelevant that well, or the judgements are wrong",
            "false",
        )
    return float(levels[fits][0])


def between(seen: Values, score: float) -> float:
    """Return a short number that parts `score` and all above it from the scores below it."""
    lower = seen[seen < score]
    low = float(lower[-1]) if len(lower) else 0.0
    rounded = (round((low + score) / 2, digits) for digits in range(2, 18))
    return next((value for value in rounded if low < value <= score), score)


def share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
