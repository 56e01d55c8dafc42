from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeline.boosting import BoostRule
from pipeline.chain import Ports, SearchPlan, search
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.expansion import ExpansionPlan
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan
from tests.fakes import CountingScorer, FakeEmbedder, FakeLegs, FakeSource

PLAN = SearchPlan("q", 4, 2, rerank=RerankPlan(), include_trace=True)
LOGITS = {"a": -9.0, "b": 1.0, "c": 3.0, "d": 2.0}


async def traced(plan: SearchPlan, ports: Ports) -> dict[str, Any]:
    result = await search(plan, ports)
    assert result.trace is not None
    return dict(result.trace)


def over(*ids: str, scorer: CountingScorer | None = None) -> Ports:
    return Ports(FakeLegs(dense=ids).retrieve, score=scorer or CountingScorer(LOGITS))


def ways(trace: dict[str, Any], *facts: str) -> dict[str, tuple[Any, ...]]:
    return {way["id"]: tuple(way[fact] for fact in facts) for way in trace["hits"]}


async def test_there_is_no_trace_unless_it_is_asked_for() -> None:
    result = await search(replace(PLAN, include_trace=False), over("a", "b"))
    assert result.trace is None


async def test_every_candidate_has_a_way_with_an_end_and_a_reason() -> None:
    plan = replace(PLAN, correction=CorrectionPlan(), rerank=RerankPlan(min_score=0.8))
    trace = await traced(plan, over("a", "b", "c", "d"))
    assert ways(trace, "fused_rank", "rerank_rank", "final_rank", "outcome") == {
        "a": (1, None, None, "dropped by correction"),
        "b": (2, None, None, "dropped by reranking"),
        "c": (3, 1, 1, "returned"),
        "d": (4, 2, 2, "returned"),
    }


async def test_a_hit_below_the_last_place_was_trimmed() -> None:
    trace = await traced(replace(PLAN, final_top_k=1), over("b", "c"))
    assert ways(trace, "outcome") == {"b": ("trimmed",), "c": ("returned",)}


async def test_a_score_says_where_it_came_from_and_whether_it_was_read_again() -> None:
    trace = await traced(replace(PLAN, correction=CorrectionPlan()), over("a", "b"))
    # The reranker never saw the hit that correction dropped.
    assert ways(trace, "score_from", "stamp_reused") == {
        "a": ("pass", False),
        "b": ("pass", True),
    }
    assert trace["counters"]["reused"] == 1
    trace = await traced(PLAN, over("a", "b"))
    assert ways(trace, "score_from", "stamp_reused") == {
        "a": ("pass", False),
        "b": ("pass", False),
    }


async def test_a_hit_without_a_score_says_so() -> None:
    trace = await traced(replace(PLAN, rerank=RerankPlan(top_n=1)), over("b", "c"))
    assert ways(trace, "score_from") == {"b": ("pass",), "c": (None,)}
    assert [(hit["id"], hit["relevance"]) for hit in trace["reranked_hits"]][1] == ("c", None)


async def test_a_dropped_hit_keeps_the_score_it_was_dropped_for() -> None:
    trace = await traced(replace(PLAN, rerank=RerankPlan(min_score=0.5)), over("a", "b"))
    assert ways(trace, "score_from", "outcome")["a"] == ("pass", "dropped by reranking")
    assert trace["counters"]["passes"] == 2


async def test_a_boost_shows_its_factor() -> None:
    trace = await traced(replace(PLAN, boosts=(BoostRule(factor=2.0),)), over("b"))
    assert ways(trace, "boost") == {"b": (2.0,)}


async def test_citations_are_told_apart_by_origin_where_ids_are_equal() -> None:
    plan = replace(
        PLAN,
        correction=CorrectionPlan(fallback="corpus:other"),
        context=ContextPlan(max_tokens=3, delimiter=""),
    )
    legs = FakeLegs(dense=["a"])
    legs.texts = {"a": "a long text that does not fit"}
    scorer = CountingScorer({"a": -0.1, "a long text that does not fit": 0.0})
    result = await search(plan, Ports(legs.retrieve, score=scorer, fallback=FakeSource("a")))
    assert result.context is not None
    assert result.trace is not None
    assert result.context.text == "[1] a"
    assert [(way["origin"], way["cited"]) for way in result.trace["hits"]] == [
        (None, None),
        ("corpus:other", 1),
    ]


async def test_the_context_tells_its_size_and_what_is_not_in_it() -> None:
    plan = replace(PLAN, context=ContextPlan(max_tokens=2))
    trace = await traced(plan, over("b", "c"))
    assert trace["context"] == {"tokens": 2, "counted_by": "estimate", "left_out": ["b"]}
    assert ways(trace, "cited") == {"b": (None,), "c": (1,)}


async def test_every_variant_is_told_the_dropped_too() -> None:
    plan = SearchPlan(
        "q",
        expansion=ExpansionPlan(
            templates=("far {query}", "near {query}"), weights={"template": 0.5}, drift="drop"
        ),
        include_trace=True,
    )
    embed = FakeEmbedder({"far q": (0, 1)})
    trace = await traced(plan, Ports(FakeLegs(dense=["a"]).retrieve, embed))
    told = [
        (one["number"], one["kind"], one["text"], one["weight"], one["cosine"], one["searched"])
        for one in trace["variants"]
    ]
    assert told == [
        (0, "original", "q", 1.0, None, True),
        (1, "template", "far q", 0.5, 0.0, False),
        (2, "template", "near q", 0.5, 1.0, True),
    ]
    assert [one["drifted"] for one in trace["variants"]] == [False, True, False]


async def test_refinement_tells_every_strip() -> None:
    trace = await traced(replace(PLAN, refine=RefinePlan()), over("c"))
    assert [(strip["id"], strip["kept"]) for strip in trace["refinement"]] == [("c", True)]


async def test_failures_are_told_once_each() -> None:
    scorer = CountingScorer({})
    scorer.down = True
    plan = replace(PLAN, correction=CorrectionPlan(), refine=RefinePlan())
    trace = await traced(plan, over("a", scorer=scorer))
    assert trace["failures"] == ["the scorer is down"]
