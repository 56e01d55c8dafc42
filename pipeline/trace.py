"""The trace: what each stage did, and to which hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.context import Context
from pipeline.drift import Drift
from pipeline.hits import Hit, stable_key
from pipeline.legs import Variant
from pipeline.stages import Stages, latest

Places = Mapping[tuple[str, ...], int]  # by stable key, from 1


def trace_of(stages: Stages) -> dict[str, Any]:
    """Return the query as it was judged, its variants, retrieved and reranked hits, the steps of
    correction and refinement, the context's size, counters, and each hit's way through."""
    recalled, corrected, reranked = stages.recalled, stages.corrected, stages.reranked
    context = stages.context
    return {
        "query": recalled.query,
        "variants": variants_of(recalled.variants, recalled.drifts),
        "retrieved_hits": briefs(recalled.hits),
        "reranked_hits": briefs(reranked.hits),
        "correction": list(corrected.steps),
        "refinement": list(stages.refined.strips),
        "context": {
            "tokens": context.tokens,
            "counted_by": context.counted_by,
            "left_out": list(context.left_out),
        }
        if context
        else None,
        "counters": asdict(stages.tally),
        "failures": failures_of(stages),
        "hits": ways_of(stages),
    }


def variants_of(searched: Sequence[Variant], drifts: Sequence[Drift]) -> list[dict[str, Any]]:
    """Every variant that was written, whether it was searched or dropped for its drift."""
    numbers = {variant.number for variant in searched}
    original = [Drift(variant, None, False) for variant in searched if variant.number == 0]
    return [
        {
            "number": drift.variant.number,
            "kind": drift.variant.kind,
            "text": drift.variant.text,
            "weight": drift.variant.weight,
            "cosine": drift.cosine,
            "drifted": drift.drifted,
            "searched": drift.variant.number in numbers,
        }
        for drift in (*original, *drifts)
    ]


def failures_of(stages: Stages) -> list[str]:
    """One line for each failure, each once."""
    told = [*stages.recalled.expansion_failures, *(str(each) for each in stages.failures if each)]
    return list(dict.fromkeys(told))


def briefs(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    return [brief(hit, place) for place, hit in enumerate(hits, start=1)]


def brief(hit: Hit, place: int) -> dict[str, Any]:
    return {
        "id": hit.id,
        "rank": place,
        "fusion": hit.fusion_score,
        "logit": hit.stamp.logit if hit.stamp else None,
        "relevance": hit.stamp.relevance if hit.stamp else None,
    }


def ways_of(stages: Stages) -> list[dict[str, Any]]:
    """Each candidate's way: where it entered, how it was scored, where it ended and why."""
    fused, reranked = places(stages.recalled.hits), places(stages.reranked.hits)
    survived = places(stages.corrected.hits)
    graded = {stable_key(hit): hit.stamp is not None for hit in stages.corrected.graded}
    numbers = citation_numbers(stages.context)
    ways = []
    for hit in latest(stages):
        key, stamp = stable_key(hit), hit.stamp
        ways.append(
            {
                "id": hit.id,
                "origin": hit.origin,
                "legs": [f"{entry.leg}/{entry.variant}@{entry.rank}" for entry in hit.legs],
                "fused_rank": fused.get(key),
                "score_from": stamp.came_by if stamp else None,
                "stamp_reused": stages.reranked.applied and key in survived and graded[key],
                "grade": hit.grade.value if hit.grade else None,
                "rerank_rank": reranked.get(key),
                "boost": hit.boost.factor if hit.boost else None,
                "final_rank": hit.rank,
                "outcome": outcome(hit, key in survived, key in reranked),
                "cited": numbers.get((hit.origin, hit.id)) if hit.rank is not None else None,
            }
        )
    return ways


def outcome(hit: Hit, survived: bool, ranked: bool) -> str:
    """Say what became of a hit, and at which stage."""
    if hit.rank is not None:
        return "returned"
    if not survived:
        return "dropped by correction"
    return "trimmed" if ranked else "dropped by reranking"


def places(hits: Sequence[Hit]) -> Places:
    return {stable_key(hit): place for place, hit in enumerate(hits, start=1)}


def citation_numbers(context: Context | None) -> dict[tuple[str | None, str], int]:
    """The numbers of the hits in the context, by origin and id: sources may use the same ids."""
    citations = context.citations if context else ()
    return {(citation.origin, citation.hit_id): citation.number for citation in citations}
