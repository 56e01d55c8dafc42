"""What one retrieval leg was asked for and what it answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.documents import Chunk
from pipeline.vectors import NO_ENCODERS, Encoders, SparseVector

DENSE = "dense"
BM25 = "bm25"
SPARSE = "sparse"

VariantKind = Literal["original", "rewrite", "template", "hyde", "step_back", "multi_query"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One wording of the query. Number 0 is the query as it was asked, and goes to every leg.

    `vector` (dimension,) and `sparse` are its embeddings by the models of `encoders`, None until
    it has them; `error` says why they could not be made. `weight` multiplies a leg's.
    """

    number: int
    kind: VariantKind
    text: str
    weight: float = 1.0
    vector: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    error: str | None = None
    sparse: SparseVector | None = field(default=None, compare=False, repr=False)
    encoders: Encoders = NO_ENCODERS

    @property
    def legs(self) -> tuple[str, ...]:
        """The legs that it may go to: a hypothetical document has no words of its own to match."""
        return (DENSE,) if self.kind == "hyde" else (DENSE, BM25, SPARSE)


@dataclass(frozen=True, slots=True)
class LegHit:
    """One chunk with its raw score in one leg: higher is better, scales differ between legs."""

    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class LegResult:
    """A leg's answer for one query variant: at most `asked` hits, best first, or an error."""

    leg: str
    variant: int
    asked: int
    hits: tuple[LegHit, ...] = ()
    error: str | None = None

    @property
    def exhausted(self) -> bool:
        """Whether the leg had nothing more to give than it gave."""
        return self.error is None and len(self.hits) < self.asked
