"""Recalling candidates: the query and its variants through every leg, fused.

The query itself is never blocked by its variants: it is embedded and searched while they are
still being written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from pipeline.drift import Drift, check_drift, kept
from pipeline.errors import Unavailable
from pipeline.expansion import Expansion, ExpansionPlan, Generate, Turn, expand
from pipeline.fusion import FusionPlan, fuse
from pipeline.hits import Hit
from pipeline.legs import LegResult, Variant
from pipeline.stopwatch import Stopwatch

# Some twenty variants at the greatest depth would take a second to fuse.
MAX_VARIANT_DEPTH = 200

Left = TypeVar("Left")
Right = TypeVar("Right")

# Asks every leg of every variant for this depth; a leg that fails comes back with its error.
Retrieve = Callable[[Sequence[Variant], int], Awaitable[Sequence[LegResult]]]
# Returns the variants with their vectors; one that cannot be embedded says why, none is raised.
Embed = Callable[[Sequence[Variant]], Awaitable[tuple[Variant, ...]]]


@dataclass(frozen=True, slots=True)
class RecallPlan:
    """`depth` hits are asked of each leg; `top_k` fused ones are candidates."""

    query: str
    top_k: int
    depth: int
    fusion: FusionPlan
    history: tuple[Turn, ...] = ()
    expansion: ExpansionPlan | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """The fused candidates; `exhausted` says that there are none beyond them at any depth.

    `query` is what they are to be judged by: a rewritten question, or the one that was asked.
    `variants` were searched, `drifts` tells of those that were written.
    """

    hits: tuple[Hit, ...]
    exhausted: bool
    failed_legs: tuple[str, ...]
    query: str
    variants: tuple[Variant, ...]
    drifts: tuple[Drift, ...] = ()
    expansion_failures: tuple[str, ...] = ()


class Written(NamedTuple):
    """The variants that were written: what was made, how far each is from the query, which of
    them were searched, and what their legs found."""

    expansion: Expansion
    drifts: tuple[Drift, ...] = ()
    searched: tuple[Variant, ...] = ()
    results: Sequence[LegResult] = ()


async def recall(
    plan: RecallPlan,
    retrieve: Retrieve,
    embed: Embed,
    generate: Generate | None,
    watch: Stopwatch,
) -> Recalled:
    """Search the query and its variants, at once. Raises Unavailable when every leg fails."""
    embedding = asyncio.ensure_future(embed([Variant(0, "original", plan.query)]))
    try:
        (query, own), written = await together(
            recall_query(plan, embedding, retrieve, watch),
            recall_variants(plan, embedding, retrieve, embed, generate, watch),
        )
    finally:
        embedding.cancel()
    variants = (query, *written.searched)
    results = [*own, *written.results]
    hits = fused(plan, variants, results)
    return Recalled(
        hits=hits[: plan.top_k],
        exhausted=is_exhausted(results) and len(hits) <= plan.top_k,
        failed_legs=failed_legs(results),
        query=judged_by(plan, written.expansion, variants),
        variants=variants,
        drifts=written.drifts,
        expansion_failures=written.expansion.failures,
    )


async def recall_query(
    plan: RecallPlan,
    embedding: Awaitable[tuple[Variant, ...]],
    retrieve: Retrieve,
    watch: Stopwatch,
) -> tuple[Variant, Sequence[LegResult]]:
    """Search the query itself, as soon as it is embedded."""
    with watch.stage("embed"):
        (query,) = await embedding
    with watch.stage("retrieve"):
        return query, await search_variants(retrieve, [query], plan.depth)


async def recall_variants(
    plan: RecallPlan,
    embedding: Awaitable[tuple[Variant, ...]],
    retrieve: Retrieve,
    embed: Embed,
    generate: Generate | None,
    watch: Stopwatch,
) -> Written:
    """Write the variants, embed all in one call, and search those that have not drifted."""
    if plan.expansion is None:
        return Written(Expansion(plan.query, ()))
    with watch.stage("expand"):
        expansion = await expand(plan.expansion, plan.query, plan.history, generate)
        embedded = await embed(expansion.variants) if expansion.variants else ()
    (query,) = await embedding
    drifts = check_drift(query.vector, embedded, plan.expansion.drift_threshold)
    searched = kept(drifts, plan.expansion.drift)
    results = await search_variants(retrieve, searched, plan.depth)
    return Written(expansion, drifts, searched, results)


async def search_variants(
    retrieve: Retrieve, variants: Sequence[Variant], depth: int
) -> Sequence[LegResult]:
    """Search each variant, those besides the query itself no deeper than their bound."""
    bound = min(depth, MAX_VARIANT_DEPTH)
    own = [variant for variant in variants if depth == bound or variant.number == 0]
    others = [variant for variant in variants if variant not in own]
    asked = [(own, depth)] if own else []
    asked += [(others, bound)] if others else []
    results = await asyncio.gather(*(retrieve(part, k) for part, k in asked))
    return [result for part in results for result in part]


async def together(
    left: Coroutine[Any, Any, Left], right: Coroutine[Any, Any, Right]
) -> tuple[Left, Right]:
    """Await both; as soon as one raises, the other is cancelled."""
    first, second = asyncio.ensure_future(left), asyncio.ensure_future(right)
    try:
        done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()  # raises what it raised
        return first.result(), second.result()
    finally:
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)


def judged_by(plan: RecallPlan, expansion: Expansion, variants: Sequence[Variant]) -> str:
    """Return the rewritten query, unless it was dropped for its drift."""
    if any(variant.text == expansion.query for variant in variants):
        return expansion.query
    return plan.query


def fused(
    plan: RecallPlan, variants: Sequence[Variant], results: Sequence[LegResult]
) -> tuple[Hit, ...]:
    """Fuse the legs, each variant at its weight. Raises Unavailable if every leg failed."""
    if all(result.error is not None for result in results):
        reasons = sorted({f"{result.leg}: {result.error}" for result in results})
        raise Unavailable(f"every leg failed ({'; '.join(reasons)})")
    weights = {variant.number: variant.weight for variant in variants}
    return fuse(results, replace(plan.fusion, variant_weights=weights))


def failed_legs(results: Sequence[LegResult]) -> tuple[str, ...]:
    """Name the legs that failed, for any variant, each once."""
    return tuple(dict.fromkeys(result.leg for result in results if result.error is not None))


def is_exhausted(results: Sequence[LegResult]) -> bool:
    """Whether no leg that answered has more to give."""
    return all(result.exhausted for result in results if result.error is None)
