"""How far two scorers agree on the same pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Agreement:
    """The largest difference of a pair's logits, and Kendall's tau of the two orders."""

    max_logit_difference: float
    kendall: float


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Agreement:
    left, right = np.array(ours, float), np.array(theirs, float)
    return Agreement(float(np.abs(left - right).max()), kendall(left, right))


def kendall(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Kendall's tau-a: pairs of items in the same order less those in opposite order, of all."""
    first, second = (np.sign(np.subtract.outer(values, values)) for values in (left, right))
    count = len(first)
    return float((first * second).sum() / (count * (count - 1)))
