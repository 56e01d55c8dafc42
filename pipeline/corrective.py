"""Correction (CRAG): grade the candidates, drop the incorrect, and look further where too few
stay: once deeper in the same corpus, then in another source.

Source of the method: Yan et al., "Corrective Retrieval Augmented Generation", 2024,
arXiv:2401.15884.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pipeline.errors import DeadlineExceeded, NotFound, OnepassError, Unavailable
from pipeline.grading import (
    CORRECT,
    INCORRECT,
    Thresholds,
    action,
    grade_counts,
    grade_hits,
    is_incorrect,
)
from pipeline.hits import Hit, fusion_order, stable_key, strength_order
from pipeline.scoring import Score, Stamped, Tally, stamp_hits

MAX_LEG_DEPTH = 1_000


@dataclass(frozen=True, slots=True)
class CorrectionPlan:
    """How to correct. `min_hits` survivors are wanted (at most final_top_k) unless `fill` wants
    final_top_k; a continuation asks every leg for top_k x `expansion_multiplier`.

    `by_model` holds what differs from `thresholds` for single models; None there grades nothing.
    `fallback` names the other source.
    """

    thresholds: Thresholds = field(default_factory=Thresholds)
    by_model: Mapping[str, Thresholds | None] = field(default_factory=dict)
    min_hits: int = 3
    fill: bool = False
    expansion_multiplier: int = 3
    max_corrections: int = 1
    fallback: str | None = None
    on_all_incorrect: Literal["empty", "best_effort"] = "empty"

    def thresholds_for(self, model: str | None) -> Thresholds | None:
        return self.thresholds if model is None else self.by_model.get(model, self.thresholds)


@dataclass(frozen=True, slots=True)
class Correction:
    """What correction made of the candidates.

    `hits` survive, by logit; `graded` holds every candidate seen, the dropped too. `verdict` is
    the action after correction, None where nothing could be graded. `corrections` counts the
    rounds of looking further. `failure` is the scorer's, `failed_legs` failed while continuing,
    `fallback_failure` says why the other source gave nothing, or not all. `steps` tells the trace.
    """

    hits: tuple[Hit, ...]
    graded: tuple[Hit, ...]
    verdict: str | None
    corrections: int = 0
    tally: Tally = field(default_factory=Tally)
    model: str | None = None
    failure: OnepassError | None = None
    failed_legs: tuple[str, ...] = ()
    fallback_failure: OnepassError | None = None
    steps: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Deeper:
    """A deeper retrieval's fused hits, whether the legs have nothing beyond them, and which of
    them failed."""

    hits: tuple[Hit, ...]
    exhausted: bool
    failed_legs: tuple[str, ...] = ()


# Asks every leg for this depth with the same vectors, and fuses afresh.
Deepen = Callable[[int], Awaitable[Deeper]]


@dataclass(frozen=True, slots=True)
class Found:
    """The other source's hits, best first, and what of it failed."""

    hits: Sequence[Hit]
    failure: OnepassError | None = None


# Returns at most so many hits of the other source; raises OnepassError where there are none.
Elsewhere = Callable[[int], Awaitable[Found]]


@dataclass(slots=True)
class Progress:
    """One correction under way."""

    query: str
    plan: CorrectionPlan
    score: Score
    graded: Stamped
    corrections: int = 0
    failed_legs: tuple[str, ...] = ()
    fallback_failure: OnepassError | None = None
    steps: list[Mapping[str, Any]] = field(default_factory=list)

    def note(self, step: str, **facts: Any) -> None:
        hits = self.graded.hits
        counts = grade_counts(hits)
        self.steps.append({"step": step, "action": action(hits), **counts, **facts})

    async def take(self, hits: Sequence[Hit]) -> int:
        """Grade those of `hits` whose key is new; return how many there were."""
        seen = len(self.graded.hits)
        self.graded = await extend(self.query, self.graded, hits, self.plan, self.score)
        return len(self.graded.hits) - seen


async def correct(
    query: str,
    candidates: Sequence[Hit],
    plan: CorrectionPlan,
    *,
    top_k: int,
    final_top_k: int,
    score: Score,
    deepen: Deepen | None,
    elsewhere: Elsewhere | None = None,
) -> Correction:
    """Grade `candidates`, drop the incorrect ones, and look further while too few survive.

    `deepen` is None when the legs are exhausted, `elsewhere` where no other source is
    configured. A scorer that fails ends correction: hits it did not score are kept, ungraded,
    after the others.
    """
    stamped = await stamp_hits(query, candidates, None, score)
    graded = grade_hits(stamped, plan.thresholds_for(stamped.model))
    progress = Progress(query, plan, score, graded)
    progress.note("grade")
    if deepen is not None:
        await continue_deeper(progress, deepen, top_k, final_top_k)
    if elsewhere is not None and wants_fallback(progress):
        await fall_back(progress, elsewhere, top_k)
    return finished(progress)


async def continue_deeper(progress: Progress, deepen: Deepen, top_k: int, final_top_k: int) -> None:
    """Go on at the next rank, with the same vectors, until enough survive or nothing is left."""
    plan, depth = progress.plan, top_k
    while progress.corrections < plan.max_corrections:
        wanted = min(depth * plan.expansion_multiplier, MAX_LEG_DEPTH)
        if not wants_more(progress.graded, plan, final_top_k) or wanted <= depth:
            return
        deeper = await deepen(wanted)
        new = await progress.take(deeper.hits)
        depth = wanted
        progress.corrections += 1
        progress.failed_legs += deeper.failed_legs
        progress.note("continue", depth=depth, new=new)
        if deeper.exhausted:
            return


async def fall_back(progress: Progress, elsewhere: Elsewhere, top_k: int) -> None:
    """Ask the other source, as part of the last round; its failure is data."""
    source = progress.plan.fallback
    progress.corrections = max(progress.corrections, 1)
    try:
        found = await elsewhere(top_k)
    except (Unavailable, DeadlineExceeded, NotFound) as error:
        progress.fallback_failure = error
        progress.note("fallback", source=source, new=0, error=str(error))
        return
    progress.fallback_failure = found.failure
    new = await progress.take([replace(hit, origin=source) for hit in found.hits])
    failed = {"error": str(found.failure)} if found.failure else {}
    progress.note("fallback", source=source, new=new, **failed)


async def extend(
    query: str, graded: Stamped, found: Sequence[Hit], plan: CorrectionPlan, score: Score
) -> Stamped:
    """Grade what was found beyond the keys already graded.

    Hits already graded keep their stamps and take the new fusion score and leg ranks.
    """
    fresh = {stable_key(hit): hit for hit in found}
    known = {stable_key(hit) for hit in graded.hits}
    kept = [refreshed(hit, fresh.get(stable_key(hit))) for hit in graded.hits]
    added = [hit for key, hit in fresh.items() if key not in known]
    stamped = await stamp_hits(query, [*kept, *added], graded.model, score)
    # The kept hits' stamps were counted as reused by stamp_hits, but no stage read them.
    scored = replace(stamped.tally, reused=0)
    together = replace(stamped, tally=graded.tally + scored)
    return grade_hits(together, plan.thresholds_for(stamped.model))


def refreshed(hit: Hit, fresh: Hit | None) -> Hit:
    """Return the hit with the legs and scores of a deeper fusion, its metadata kept."""
    return hit if fresh is None else replace(fresh, metadata=hit.metadata)


def wants_more(graded: Stamped, plan: CorrectionPlan, final_top_k: int) -> bool:
    """Whether too few survive; never while the scorer is failing or nothing can be graded."""
    verdict = action(graded.hits)
    if graded.failure is not None or verdict is None:
        return False
    kept = sum(not is_incorrect(hit) for hit in graded.hits)
    if plan.fill:
        return kept < final_top_k
    return verdict != CORRECT and kept < min(plan.min_hits, final_top_k)


def wants_fallback(progress: Progress) -> bool:
    """Whether nothing here is correct, and that is known: there are no hits, or all are graded."""
    graded = progress.graded
    if graded.failure is not None or progress.plan.max_corrections == 0:
        return False
    verdict = action(graded.hits)
    return verdict != CORRECT and (verdict is not None or not graded.hits)


def finished(progress: Progress) -> Correction:
    graded = progress.graded
    verdict = action(graded.hits)
    return Correction(
        hits=survivors(graded.hits, progress.plan, verdict),
        graded=graded.hits,
        verdict=verdict,
        corrections=progress.corrections,
        tally=graded.tally,
        model=graded.model,
        failure=graded.failure,
        failed_legs=progress.failed_legs,
        fallback_failure=progress.fallback_failure,
        steps=tuple(progress.steps),
    )


def survivors(hits: Sequence[Hit], plan: CorrectionPlan, verdict: str | None) -> tuple[Hit, ...]:
    """Scored hits by logit, then the unscored by their fusion; incorrect ones dropped."""
    best_effort = verdict == INCORRECT and plan.on_all_incorrect == "best_effort"
    kept = [hit for hit in hits if best_effort or not is_incorrect(hit)]
    scored = sorted((hit for hit in kept if hit.stamp is not None), key=strength_order)
    return (*scored, *sorted((hit for hit in kept if hit.stamp is None), key=fusion_order))
