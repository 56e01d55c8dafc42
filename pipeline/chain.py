"""The chain: recall, correct, rerank, boost, trim, refine, assemble. One flow, failure as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal

from pipeline.boosting import BoostRule, boost
from pipeline.context import Context, ContextPlan, CountTokens, assemble
from pipeline.corrective import Correction, CorrectionPlan, Deeper, Elsewhere, Found, correct
from pipeline.errors import DeadlineExceeded, Unavailable
from pipeline.expansion import ExpansionPlan, Generate, Turn
from pipeline.fusion import FusionPlan
from pipeline.hits import Hit
from pipeline.legs import Variant
from pipeline.recall import (
    Embed,
    Recalled,
    RecallPlan,
    Retrieve,
    failed_legs,
    fused,
    is_exhausted,
    recall,
    search_variants,
)
from pipeline.refinement import Refinement, RefinePlan, refine
from pipeline.reranking import Reranking, RerankPlan, rerank
from pipeline.scoring import Score, Tally
from pipeline.stages import Stages, degraded_parts, is_late, latest
from pipeline.stopwatch import Stopwatch
from pipeline.trace import trace_of

NO_HITS = "no_hits"
OFF = "off"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """One search, every default resolved. A stage whose plan is None is off; `now` is what ages
    are counted from."""

    query: str
    top_k: int = 50
    final_top_k: int = 10
    leg_k: int | None = None
    history: tuple[Turn, ...] = ()
    expansion: ExpansionPlan | None = None
    fusion: FusionPlan = field(default_factory=FusionPlan)
    correction: CorrectionPlan | None = None
    rerank: RerankPlan | None = None
    boosts: tuple[BoostRule, ...] = ()
    refine: RefinePlan | None = None
    context: ContextPlan | None = None
    now: datetime = EPOCH
    include_trace: bool = False
    on_error: Literal["open", "closed"] = "open"

    @property
    def recalling(self) -> RecallPlan:
        depth = self.leg_k or self.top_k
        return RecallPlan(self.query, self.top_k, depth, self.fusion, self.history, self.expansion)


# Asks the other source for the query or its variants; at most so many hits, best first.
Fallback = Callable[[str, Sequence[Variant], int], Awaitable[Found]]


async def without_vectors(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """An Embed for where there is no embedder."""
    return tuple(variants)


@dataclass(frozen=True, slots=True)
class Ports:
    """What a search is given to reach the world; None is a part that is not there."""

    retrieve: Retrieve
    embed: Embed = without_vectors
    score: Score | None = None
    generate: Generate | None = None
    fallback: Fallback | None = None
    count: CountTokens | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer. `candidates` holds every hit that was considered, for the tracker; `query` is
    what the hits were judged by."""

    hits: tuple[Hit, ...]
    candidates: tuple[Hit, ...]
    query: str
    verdict: str | None
    corrections: int
    rerank_applied: bool
    degraded: tuple[str, ...]
    tally: Tally
    model: str | None
    timings_ms: Mapping[str, float]
    context: Context | None
    drifted: int
    trace: Mapping[str, Any] | None


async def search(plan: SearchPlan, ports: Ports) -> SearchResult:
    """Run one search.

    Raises Unavailable when every leg fails, or when `on_error` is closed and a part fails
    (DeadlineExceeded if it had no time);
    NotFound for a corpus that does not exist; Overloaded from any part passes through.
    """
    watch = Stopwatch()
    stages = await run_stages(plan, ports, watch)
    degraded = degraded_parts(stages)
    if degraded and plan.on_error == "closed":
        kind = DeadlineExceeded if is_late(stages) else Unavailable
        raise kind(f"a needed part failed: {', '.join(degraded)}")
    return SearchResult(
        hits=stages.hits,
        candidates=latest(stages),
        query=stages.recalled.query,
        verdict=stages.corrected.verdict,
        corrections=stages.corrected.corrections,
        rerank_applied=stages.reranked.applied,
        degraded=degraded,
        tally=stages.tally,
        model=stages.reranked.model or stages.refined.model,
        timings_ms=watch.total(),
        context=stages.context,
        drifted=sum(drift.drifted for drift in stages.recalled.drifts),
        trace=trace_of(stages) if plan.include_trace else None,
    )


async def run_stages(plan: SearchPlan, ports: Ports, watch: Stopwatch) -> Stages:
    recalled = await recall(plan.recalling, ports.retrieve, ports.embed, ports.generate, watch)
    query = recalled.query
    with watch.stage("correct"):
        corrected = await run_correction(plan, recalled, ports)
    with watch.stage("rerank"):
        reranked = await run_rerank(plan, query, corrected, ports.score)
        boosted = boost(reranked.hits, plan.boosts, plan.now)
    returned = numbered(boosted[: plan.final_top_k])
    with watch.stage("refine"):
        refined = await run_refinement(plan, query, returned, corrected, reranked, ports.score)
    with watch.stage("assemble"):
        context = await assemble(refined.hits, plan.context, ports.count) if plan.context else None
    return Stages(recalled, corrected, reranked, boosted, refined, context)


def numbered(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1))


async def run_correction(plan: SearchPlan, recalled: Recalled, ports: Ports) -> Correction:
    """Correct if the plan says so; else pass the candidates on, with verdict off or no_hits."""
    hits, elsewhere = recalled.hits, elsewhere_of(plan, recalled, ports)
    if plan.correction is None or ports.score is None or not (hits or elsewhere):
        return Correction(hits=hits, graded=hits, verdict=OFF if hits else NO_HITS)
    corrected = await correct(
        recalled.query,
        hits,
        plan.correction,
        top_k=plan.top_k,
        final_top_k=plan.final_top_k,
        score=ports.score,
        deepen=None if recalled.exhausted else deepen_of(plan, recalled, ports),
        elsewhere=elsewhere,
    )
    return corrected if corrected.graded else replace(corrected, verdict=NO_HITS)


def deepen_of(
    plan: SearchPlan, recalled: Recalled, ports: Ports
) -> Callable[[int], Awaitable[Deeper]]:
    async def deepen(depth: int) -> Deeper:
        depth_of_legs = max(depth, plan.leg_k or 0)
        results = await search_variants(ports.retrieve, recalled.variants, depth_of_legs)
        try:
            hits = fused(plan.recalling, recalled.variants, results)
        except Unavailable:
            hits = ()  # every leg failed: what was found before is an answer still
        exhausted = is_exhausted(results) and len(hits) <= depth
        return Deeper(hits[:depth], exhausted, failed_legs(results))

    return deepen


def elsewhere_of(plan: SearchPlan, recalled: Recalled, ports: Ports) -> Elsewhere | None:
    fallback = ports.fallback
    if fallback is None or plan.correction is None or plan.correction.fallback is None:
        return None

    async def elsewhere(depth: int) -> Found:
        return await fallback(recalled.query, recalled.variants, depth)

    return elsewhere


async def run_rerank(
    plan: SearchPlan, query: str, corrected: Correction, score: Score | None
) -> Reranking:
    """Rerank if the plan says so and the scorer has not failed this request already."""
    if plan.rerank is None or score is None:
        return Reranking(corrected.hits, False, Tally(), corrected.model)
    if corrected.failure is not None:
        return Reranking(corrected.hits, False, Tally(), corrected.model, corrected.failure)
    return await rerank(query, corrected.hits, plan.rerank, score, model=corrected.model)


async def run_refinement(
    plan: SearchPlan,
    query: str,
    hits: tuple[Hit, ...],
    corrected: Correction,
    reranked: Reranking,
    score: Score | None,
) -> Refinement:
    """Refine if the plan says so; after a failure of the scorer it is not asked again."""
    failure = corrected.failure or reranked.failure
    if plan.refine is None or score is None or not hits or failure is not None:
        return Refinement(hits, Tally(), failure if plan.refine else None, ())
    judged = (*corrected.graded, *reranked.seen)
    return await refine(query, hits, plan.refine, score, model=reranked.model, judged=judged)
