"""What the stages of a search made of its candidates."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.context import Context
from pipeline.corrective import Correction
from pipeline.errors import DeadlineExceeded, OnepassError
from pipeline.hits import Hit, stable_key
from pipeline.recall import Recalled
from pipeline.refinement import Refinement
from pipeline.reranking import Reranking
from pipeline.scoring import Tally


@dataclass(frozen=True, slots=True)
class Stages:
    """Each stage's result, in their order. `boosted` is untrimmed; `refined` is what returns."""

    recalled: Recalled
    corrected: Correction
    reranked: Reranking
    boosted: tuple[Hit, ...]
    refined: Refinement
    context: Context | None

    @property
    def hits(self) -> tuple[Hit, ...]:
        return self.refined.hits

    @property
    def failures(self) -> tuple[OnepassError | None, ...]:
        """What failed after recall, None where nothing did."""
        corrected = self.corrected
        return (
            corrected.failure,
            corrected.fallback_failure,
            self.reranked.failure,
            self.refined.failure,
        )

    @property
    def tally(self) -> Tally:
        return self.corrected.tally + self.reranked.tally + self.refined.tally


def degraded_parts(stages: Stages) -> tuple[str, ...]:
    """Name every part that failed, each once."""
    legs = stages.recalled.failed_legs + stages.corrected.failed_legs
    failed = {
        "expansion": bool(stages.recalled.expansion_failures),
        **{f"leg:{leg}": True for leg in legs},
        "correct": stages.corrected.failure is not None,
        "fallback": stages.corrected.fallback_failure is not None,
        "rerank": stages.reranked.failure is not None,
        "refine": stages.refined.failure is not None,
    }
    return tuple(part for part, has_failed in failed.items() if has_failed)


def is_late(stages: Stages) -> bool:
    """Whether a part failed for want of time."""
    return any(isinstance(failure, DeadlineExceeded) for failure in stages.failures)


def latest(stages: Stages) -> tuple[Hit, ...]:
    """Every candidate once, as the last stage that had it left it."""
    reranked = stages.reranked
    groups = (stages.corrected.graded, reranked.seen, reranked.hits, stages.boosted, stages.hits)
    return tuple({stable_key(hit): hit for group in groups for hit in group}.values())
