"""Correction (CRAG): grade the candidates, drop the incorrect, continue once where too few stay.

Source of the method: Yan et al., "Corrective Retrieval Augmented Generation", 2024,
arXiv:2401.15884. Grades compare relevance in [0, 1], never a logit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pipeline.errors import InvalidInput, OnepassError
from pipeline.hits import Hit, stable_key, strength_order
from pipeline.scoring import Score, Stamped, Tally, stamp_hits
from pipeline.stamps import GRADE, Grade

CORRECT = "correct"
AMBIGUOUS = "ambiguous"
INCORRECT = "incorrect"
MAX_LEG_DEPTH = 1_000


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


@dataclass(frozen=True, slots=True)
class CorrectionPlan:
    """How to correct. `min_hits` survivors are wanted (at most final_top_k) unless `fill` wants
    final_top_k; a continuation asks every leg for top_k x `expansion_multiplier`."""

    thresholds: Thresholds = Thresholds()
    min_hits: int = 3
    fill: bool = False
    expansion_multiplier: int = 3
    max_corrections: int = 1
    on_all_incorrect: Literal["empty", "best_effort"] = "empty"


@dataclass(frozen=True, slots=True)
class Correction:
    """What correction made of the candidates.

    `hits` survive, by logit; `graded` holds every candidate seen, the dropped too. `verdict` is
    the action after correction, None where nothing could be graded. `failed_legs` failed while
    continuing. `steps` tells the trace.
    """

    hits: tuple[Hit, ...]
    graded: tuple[Hit, ...]
    verdict: str | None
    corrections: int = 0
    tally: Tally = field(default_factory=Tally)
    model: str | None = None
    failure: OnepassError | None = None
    failed_legs: tuple[str, ...] = ()
    steps: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Deeper:
    """A deeper retrieval's fused hits, whether the legs have nothing beyond them, and which of
    them failed."""

    hits: tuple[Hit, ...]
    exhausted: bool
    failed_legs: tuple[str, ...] = ()


# Asks every leg for this depth with the same vectors, and fuses afresh.
Deepen = Callable[[int], Awaitable[Deeper]]


async def correct(
    query: str,
    candidates: Sequence[Hit],
    plan: CorrectionPlan,
    *,
    top_k: int,
    final_top_k: int,
    score: Score,
    deepen: Deepen | None,
) -> Correction:
    """Grade `candidates`, drop the incorrect ones, and continue while too few survive.

    `deepen` is None when the legs are exhausted. A scorer that fails ends correction: hits it
    did not score are kept, ungraded, after the others.
    """
    graded = grade_hits(await stamp_hits(query, candidates, None, score), plan.thresholds)
    steps = [step_of(graded)]
    corrections, depth = 0, top_k
    failed_legs: tuple[str, ...] = ()
    while deepen is not None and corrections < plan.max_corrections:
        wanted = min(depth * plan.expansion_multiplier, MAX_LEG_DEPTH)
        if not wants_more(graded, plan, final_top_k) or wanted <= depth:
            break
        seen = len(graded.hits)
        deeper = await deepen(wanted)
        graded = await continue_with(query, graded, deeper.hits, plan.thresholds, score)
        corrections, depth = corrections + 1, wanted
        failed_legs += deeper.failed_legs
        steps.append({**step_of(graded), "depth": wanted, "new": len(graded.hits) - seen})
        if deeper.exhausted:
            break
    verdict = action(graded.hits)
    return Correction(
        hits=survivors(graded.hits, plan, verdict),
        graded=graded.hits,
        verdict=verdict,
        corrections=corrections,
        tally=graded.tally,
        model=graded.model,
        failure=graded.failure,
        failed_legs=failed_legs,
        steps=tuple(steps),
    )


async def continue_with(
    query: str, graded: Stamped, fused: Sequence[Hit], thresholds: Thresholds, score: Score
) -> Stamped:
    """Grade what the deeper retrieval brought beyond the keys already graded.

    Hits already graded keep their stamps and take the new fusion score and leg ranks.
    """
    fresh = {stable_key(hit): hit for hit in fused}
    known = {stable_key(hit) for hit in graded.hits}
    kept = [refreshed(hit, fresh.get(stable_key(hit))) for hit in graded.hits]
    added = [hit for key, hit in fresh.items() if key not in known]
    stamped = await stamp_hits(query, [*kept, *added], graded.model, score)
    # The kept hits' stamps were counted as reused by stamp_hits, but no stage read them.
    scored = replace(stamped.tally, reused=0)
    return grade_hits(replace(stamped, tally=graded.tally + scored), thresholds)


def refreshed(hit: Hit, fresh: Hit | None) -> Hit:
    """Return the hit with the legs and scores of a deeper fusion, its metadata kept."""
    return hit if fresh is None else replace(fresh, metadata=hit.metadata)


def grade_hits(stamped: Stamped, thresholds: Thresholds) -> Stamped:
    return replace(stamped, hits=tuple(grade_hit(hit, thresholds) for hit in stamped.hits))


def grade_hit(hit: Hit, thresholds: Thresholds) -> Hit:
    """Grade by the very number that is shown; an unscored hit gets no grade."""
    if hit.stamp is None:
        return hit.without(GRADE)
    return hit.marked(GRADE, thresholds.grade(hit.stamp.relevance))


def action(hits: Sequence[Hit]) -> str | None:
    """Return the query-level action: correct if any hit is, incorrect if all are."""
    grades = {hit.grade.value for hit in hits if hit.grade is not None}
    if CORRECT in grades:
        return CORRECT
    if grades == {INCORRECT}:
        return INCORRECT
    return AMBIGUOUS if grades else None


def wants_more(graded: Stamped, plan: CorrectionPlan, final_top_k: int) -> bool:
    """Whether too few survive; never while the scorer is failing."""
    if graded.failure is not None:
        return False
    kept = sum(not is_incorrect(hit) for hit in graded.hits)
    if plan.fill:
        return kept < final_top_k
    return action(graded.hits) != CORRECT and kept < min(plan.min_hits, final_top_k)


def survivors(hits: Sequence[Hit], plan: CorrectionPlan, verdict: str | None) -> tuple[Hit, ...]:
    """Scored hits by logit, then the unscored in their order; incorrect ones dropped."""
    best_effort = verdict == INCORRECT and plan.on_all_incorrect == "best_effort"
    kept = [hit for hit in hits if best_effort or not is_incorrect(hit)]
    scored = sorted((hit for hit in kept if hit.stamp is not None), key=strength_order)
    return (*scored, *(hit for hit in kept if hit.stamp is None))


def is_incorrect(hit: Hit) -> bool:
    return hit.grade is not None and hit.grade.value == INCORRECT


def step_of(graded: Stamped) -> dict[str, object]:
    grades = [hit.grade.value for hit in graded.hits if hit.grade is not None]
    counts = {value: grades.count(value) for value in (CORRECT, AMBIGUOUS, INCORRECT)}
    return {"action": action(graded.hits), **counts, "ungraded": len(graded.hits) - len(grades)}
