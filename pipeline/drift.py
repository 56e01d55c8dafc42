"""Drift: how far a variant's meaning went from the query's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.legs import Variant


@dataclass(frozen=True, slots=True)
class Drift:
    """A variant's cosine to the query, None if either has no direction; that is no drift."""

    variant: Variant
    cosine: float | None
    drifted: bool


def check_drift(
    query_vector: NDArray[np.float32] | None, variants: Sequence[Variant], threshold: float
) -> tuple[Drift, ...]:
    """Compare every variant, whatever its kind; one below `threshold` has drifted.

    `query_vector` (dimension,) need not be normalised. One result a variant, in their order.
    """
    cosines = [cosine(query_vector, variant.vector) for variant in variants]
    return tuple(
        Drift(variant, value, value is not None and value < threshold)
        for variant, value in zip(variants, cosines, strict=True)
    )


def kept(drifts: Sequence[Drift], mode: Literal["off", "observe", "drop"]) -> tuple[Variant, ...]:
    """Return the variants that stay: all of them unless the mode is drop."""
    return tuple(drift.variant for drift in drifts if mode != "drop" or not drift.drifted)


def cosine(a: NDArray[np.float32] | None, b: NDArray[np.float32] | None) -> float | None:
    """Return the cosine of two vectors, None if one is missing, zero or not finite."""
    if a is None or b is None:
        return None
    x, y = a.astype(np.float64), b.astype(np.float64)
    length = float(np.linalg.norm(x) * np.linalg.norm(y))
    if length == 0.0 or not np.isfinite(length):
        return None
    return float(x @ y) / length
