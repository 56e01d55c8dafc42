"""What encoders make of texts, and which encoders made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """A learned-sparse vector: ids of terms (n,), ascending and each once, and their weights (n,),
    all above 0. A text may have no term at all."""

    ids: NDArray[np.int64]
    weights: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.ids.shape != self.weights.shape or self.ids.ndim != 1:
            raise ValueError("a sparse vector needs one weight for each id")

    def dot(self, other: SparseVector) -> float | None:
        """Return the inner product; None where the two have no term in common."""
        _, own, others = np.intersect1d(
            self.ids, other.ids, assume_unique=True, return_indices=True
        )
        return float(self.weights[own] @ other.weights[others]) if len(own) else None


@dataclass(frozen=True, slots=True)
class Encoders:
    """Fingerprints of the models that made vectors; None where there is no such model.

    Vectors of two models cannot be compared, so a corpus is of one pair of them.
    """

    dense: str | None = None
    sparse: str | None = None


NO_ENCODERS = Encoders()


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """Vectors of n texts in order: `dense` (n, dimension), and `sparse` where such a model is."""

    dense: NDArray[np.float32]
    sparse: Sequence[SparseVector] | None
    encoders: Encoders

    @property
    def rows(self) -> list[tuple[NDArray[np.float32], SparseVector | None]]:
        """Each text's dense vector (dimension,) and its sparse one."""
        if self.sparse is None:
            return [(dense, None) for dense in self.dense]
        return list(zip(self.dense, self.sparse, strict=True))
