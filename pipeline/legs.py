"""What one retrieval leg was asked for and what it answered."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.documents import Chunk

DENSE = "dense"
BM25 = "bm25"


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
