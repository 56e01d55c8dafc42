"""The chain: retrieve, correct, rerank, trim, assemble. One flow, failure as data."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pipeline.context import Context, assemble
from pipeline.corrective import Correction, CorrectionPlan, Deeper, correct
from pipeline.errors import Unavailable
from pipeline.fusion import RRF_K, fuse
from pipeline.hits import Hit, stable_key
from pipeline.legs import LegResult
from pipeline.reranking import Reranking, RerankPlan, rerank
from pipeline.scoring import Score, Tally
from pipeline.trace import trace_of

NO_HITS = "no_hits"
OFF = "off"


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """One search, every default resolved. `correction` or `rerank` None means off."""

    query: str
    top_k: int = 50
    final_top_k: int = 10
    leg_k: int | None = None
    fusion_k: float = RRF_K
    weights: Mapping[str, float] = field(default_factory=dict)
    correction: CorrectionPlan | None = None
    rerank: RerankPlan | None = None
    context_tokens: int | None = None
    include_trace: bool = False
    on_error: Literal["open", "closed"] = "open"


# Asks every leg for this depth; a leg that fails comes back with its error, never raises.
Retrieve = Callable[[int], Awaitable[Sequence[LegResult]]]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer. `candidates` holds every hit that was considered, for the tracker."""

    hits: tuple[Hit, ...]
    candidates: tuple[Hit, ...]
    verdict: str | None
    corrections: int
    rerank_applied: bool
    degraded: tuple[str, ...]
    tally: Tally
    model: str | None
    timings_ms: Mapping[str, float]
    context: Context | None
    trace: Mapping[str, Any] | None


class Stopwatch:
    """Milliseconds by stage, in the order in which stages ended."""

    def __init__(self) -> None:
        self.started = self.lap_started = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage] = round((now - self.lap_started) * 1e3, 3)
        self.lap_started = now

    def total(self) -> dict[str, float]:
        return {**self.laps, "total": round((time.perf_counter() - self.started) * 1e3, 3)}


async def search(
    plan: SearchPlan, retrieve: Retrieve, score: Score | None, watch: Stopwatch | None = None
) -> SearchResult:
    """Run one search; `watch` may hold the times of stages that went before.

    Raises Unavailable when every leg fails, or when `on_error` is closed and a part fails;
    Overloaded from the scorer passes through.
    """
    watch = watch or Stopwatch()
    retrieved = await run_retrieval(plan, retrieve)
    watch.lap("retrieve")
    corrected = await run_correction(plan, retrieved, retrieve, score)
    watch.lap("correct")
    reranked = await run_rerank(plan, corrected, score)
    watch.lap("rerank")
    hits = tuple(
        replace(hit, rank=rank)
        for rank, hit in enumerate(reranked.hits[: plan.final_top_k], start=1)
    )
    context = None if plan.context_tokens is None else assemble(hits, plan.context_tokens)
    watch.lap("assemble")
    degraded = degraded_parts(retrieved, corrected, reranked)
    if degraded and plan.on_error == "closed":
        raise Unavailable(f"a needed part failed: {', '.join(degraded)}")
    return SearchResult(
        hits=hits,
        candidates=latest(corrected.graded, reranked.hits, hits),
        verdict=corrected.verdict,
        corrections=corrected.corrections,
        rerank_applied=reranked.applied,
        degraded=degraded,
        tally=corrected.tally + reranked.tally,
        model=reranked.model,
        timings_ms=watch.total(),
        context=context,
        trace=trace_of(retrieved.hits, corrected, reranked, hits) if plan.include_trace else None,
    )


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The fused candidates, whether the legs have more, and which of them failed."""

    hits: tuple[Hit, ...]
    exhausted: bool
    failed_legs: tuple[str, ...]


async def run_retrieval(plan: SearchPlan, retrieve: Retrieve) -> Retrieved:
    results = await retrieve(plan.leg_k or plan.top_k)
    failed = failed_legs(results)
    if len(failed) == len(results):
        reasons = sorted({f"{result.leg}: {result.error}" for result in results})
        raise Unavailable(f"every leg failed ({'; '.join(reasons)})")
    return Retrieved(fuse_by(plan, results)[: plan.top_k], is_exhausted(results), failed)


def failed_legs(results: Sequence[LegResult]) -> tuple[str, ...]:
    return tuple(result.leg for result in results if result.error is not None)


def is_exhausted(results: Sequence[LegResult]) -> bool:
    """Whether no leg that answered has more to give."""
    return all(result.exhausted for result in results if result.error is None)


def fuse_by(plan: SearchPlan, results: Sequence[LegResult]) -> tuple[Hit, ...]:
    return fuse(results, k=plan.fusion_k, weights=plan.weights)


async def run_correction(
    plan: SearchPlan, retrieved: Retrieved, retrieve: Retrieve, score: Score | None
) -> Correction:
    """Correct if the plan says so; else pass the candidates on, with verdict off or no_hits."""
    hits = retrieved.hits
    if not hits or plan.correction is None or score is None:
        return Correction(hits=hits, graded=hits, verdict=OFF if hits else NO_HITS)

    async def deepen(depth: int) -> Deeper:
        results = await retrieve(max(depth, plan.leg_k or 0))
        return Deeper(fuse_by(plan, results)[:depth], is_exhausted(results), failed_legs(results))

    return await correct(
        plan.query,
        hits,
        plan.correction,
        top_k=plan.top_k,
        final_top_k=plan.final_top_k,
        score=score,
        deepen=None if retrieved.exhausted else deepen,
    )


async def run_rerank(plan: SearchPlan, corrected: Correction, score: Score | None) -> Reranking:
    """Rerank if the plan says so and the scorer has not failed this request already."""
    if plan.rerank is None or score is None:
        return Reranking(corrected.hits, False, Tally(), corrected.model)
    if corrected.failure is not None:
        return Reranking(corrected.hits, False, Tally(), corrected.model, corrected.failure)
    return await rerank(plan.query, corrected.hits, plan.rerank, score, model=corrected.model)


def degraded_parts(
    retrieved: Retrieved, corrected: Correction, reranked: Reranking
) -> tuple[str, ...]:
    """Name every part that failed, each once."""
    legs = retrieved.failed_legs + corrected.failed_legs
    parts = [f"leg:{leg}" for leg in legs]
    if corrected.failure is not None:
        parts.append("correct")
    if reranked.failure is not None:
        parts.append("rerank")
    return tuple(dict.fromkeys(parts))


def latest(*stages: Sequence[Hit]) -> tuple[Hit, ...]:
    """Every hit once, as the last stage that had it left it."""
    return tuple({stable_key(hit): hit for stage in stages for hit in stage}.values())
