"""How far two rankings of the same things agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def kendall_tau_b(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the rank correlation of two scorings of the same things, in the same order.

    From -1, opposite, to 1, the same: pairs ordered alike less pairs ordered unlike, over the
    geometric mean of the numbers of pairs that each side orders at all. None where one side
    orders nothing: fewer than two things, or all equal. Scores are compared, never subtracted,
    so infinite ones are fine. Time and memory grow with the square of the length.
    Source: Kendall, "The treatment of ties in ranking problems", Biometrika 33, 1945.
    """
    lefts, rights = orders(left), orders(right)
    ordered = math.sqrt(int(np.count_nonzero(lefts)) * int(np.count_nonzero(rights)))
    if ordered == 0:
        return None
    return int((lefts * rights).sum(dtype=np.int64)) / ordered


def overlap_at(k: int, left_ids: Sequence[str], right_ids: Sequence[str]) -> float:
    """Return what part of the first `k` two rankings, best first, have in common.

    They are taken as sets, and over as many as the longer of the two has, if that is fewer
    than `k`. Two that are empty agree: 1.
    """
    depth = min(k, max(len(left_ids), len(right_ids)))
    if depth == 0:
        return 1.0
    return len(set(left_ids[:depth]) & set(right_ids[:depth])) / depth


def orders(scores: Sequence[float]) -> NDArray[np.int8]:
    """Return how each score (n,) compares with each other one (n, n): 1 above, -1 below, or 0."""
    column = np.asarray(scores, dtype=np.float64)[:, np.newaxis]
    return (column > column.T).astype(np.int8) - (column < column.T).astype(np.int8)
