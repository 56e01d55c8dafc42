"""Grades: what a cross-encoder's relevance says about a hit, and about a query's hits together.

Source of the method: Yan et al., "Corrective Retrieval Augmented Generation", 2024,
arXiv:2401.15884. Grades compare relevance in [0, 1], never a logit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.errors import InvalidInput
from pipeline.hits import Hit
from pipeline.scoring import Stamped
from pipeline.stamps import GRADE, Grade

CORRECT = "correct"
AMBIGUOUS = "ambiguous"
INCORRECT = "incorrect"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Relevance >= `correct` is correct, < `incorrect` is incorrect, between is ambiguous."""

    correct: float = 0.7
    incorrect: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 <= self.incorrect <= self.correct <= 1.0:
            raise InvalidInput("thresholds need 0 <= incorrect_threshold <= correct_threshold <= 1")

    def grade(self, relevance: float) -> Grade:
        if relevance >= self.correct:
            value = CORRECT
        else:
            value = INCORRECT if relevance < self.incorrect else AMBIGUOUS
        return Grade(value, self.correct, self.incorrect)


def grade_hits(stamped: Stamped, thresholds: Thresholds | None) -> Stamped:
    """Grade every hit that has a score; None where the model's scores have no thresholds."""
    return replace(stamped, hits=tuple(grade_hit(hit, thresholds) for hit in stamped.hits))


def grade_hit(hit: Hit, thresholds: Thresholds | None) -> Hit:
    """Grade by the very number that is shown; an unscored hit gets no grade."""
    if hit.stamp is None or thresholds is None:
        return hit.without(GRADE)
    return hit.marked(GRADE, thresholds.grade(hit.stamp.relevance))


def action(hits: Sequence[Hit]) -> str | None:
    """Return the query-level action: correct if any hit is, incorrect if all graded ones are;
    None where none is graded."""
    grades = {hit.grade.value for hit in hits if hit.grade is not None}
    if CORRECT in grades:
        return CORRECT
    if grades == {INCORRECT}:
        return INCORRECT
    return AMBIGUOUS if grades else None


def is_incorrect(hit: Hit) -> bool:
    return hit.grade is not None and hit.grade.value == INCORRECT


def grade_counts(hits: Sequence[Hit]) -> dict[str, int]:
    """Count the hits by grade, and those without one."""
    grades = [hit.grade.value for hit in hits if hit.grade is not None]
    counts = {value: grades.count(value) for value in (CORRECT, AMBIGUOUS, INCORRECT)}
    return {**counts, "ungraded": len(hits) - len(grades)}
