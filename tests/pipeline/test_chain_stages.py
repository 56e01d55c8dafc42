"""The stages after correction, in their order: rerank, boost, trim, refine, assemble."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.boosting import BoostRule
from pipeline.chain import Ports, SearchPlan, SearchResult, search
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.filters import parse_filter
from pipeline.hits import effective_score
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan
from tests.fakes import CountingScorer, FakeLegs

IDS = [f"d{n}" for n in range(6)]
LOGITS = {"d0": -6.0, "d1": 1.0, "d2": 5.0, "d3": -7.0, "d4": 0.0, "d5": 2.0}
RERANK = SearchPlan("q", 6, 3, rerank=RerankPlan())


async def ranked(plan: SearchPlan, legs: FakeLegs | None = None) -> SearchResult:
    retriever = legs or FakeLegs(dense=IDS)
    return await search(plan, Ports(retriever.retrieve, score=CountingScorer(LOGITS)))


def favouring(identity: str, factor: float) -> BoostRule:
    return BoostRule(parse_filter({"field": "name", "eq": identity}), factor)


async def test_a_boost_acts_before_trimming_on_a_hit_with_a_negative_logit_too() -> None:
    plan = replace(RERANK, final_top_k=2, boosts=(favouring("d0", 1000.0),))
    result = await ranked(plan, FakeLegs(dense=IDS))
    assert [hit.id for hit in result.hits] == ["d2", "d5"]
    lifted = replace(plan, boosts=(favouring("d0", 1e6),))
    result = await ranked(lifted, FakeLegs(dense=IDS))
    assert [hit.id for hit in result.hits] == ["d0", "d2"]
    assert result.hits[0].stamp is not None
    assert result.hits[0].stamp.logit == -6.0


async def test_a_boost_needs_no_scorer() -> None:
    plan = SearchPlan("q", 6, 2, boosts=(favouring("d5", 5.0),))
    result = await search(plan, Ports(FakeLegs(dense=IDS).retrieve))
    assert [(hit.id, effective_score(hit)[1]) for hit in result.hits] == [
        ("d5", "boosted_fusion"),
        ("d0", "boosted_fusion"),
    ]


async def test_a_boost_brings_no_dropped_hit_back_and_changes_no_grade() -> None:
    plan = replace(RERANK, correction=CorrectionPlan(), boosts=(favouring("d0", 1e6),))
    result = await ranked(plan, FakeLegs(dense=IDS))
    assert [hit.id for hit in result.hits] == ["d2", "d5", "d1"]
    grades = {hit.id: hit.grade.value for hit in result.candidates if hit.grade}
    assert (grades["d0"], grades["d2"]) == ("incorrect", "correct")


async def test_no_later_stage_picks_again_so_the_order_is_the_rerankers() -> None:
    plan = replace(RERANK, query="words that no text has", refine=RefinePlan(min_score=0.0))
    result = await ranked(replace(plan, context=ContextPlan()))
    assert [hit.id for hit in result.hits] == ["d2", "d5", "d1"]
    assert result.context is not None
    assert [one.hit_id for one in result.context.citations] == ["d2", "d5", "d1"]


async def test_unscored_hits_follow_in_retrieval_order_without_a_score() -> None:
    plan = SearchPlan("q", 6, 4, rerank=RerankPlan(top_n=2))
    result = await ranked(plan)
    assert [(hit.id, hit.stamp is not None) for hit in result.hits] == [
        ("d1", True),
        ("d0", True),
        ("d2", False),
        ("d3", False),
    ]
    assert [effective_score(hit)[1] for hit in result.hits] == [
        "cross_encoder",
        "cross_encoder",
        "fusion",
        "fusion",
    ]


async def test_an_empty_leg_adds_no_hit_that_a_min_score_would_let_through() -> None:
    plan = replace(RERANK, rerank=RerankPlan(min_score=0.9))
    result = await ranked(plan, FakeLegs(dense=IDS, bm25=[]))
    assert ([hit.id for hit in result.hits], result.degraded) == (["d2"], ())


async def test_only_what_is_returned_is_refined() -> None:
    legs = FakeLegs(dense=["d2", "d5"])
    text = "One. Two. Three. Four."
    legs.texts = {"d2": text, "d5": f"{text} Five."}
    scorer = CountingScorer(
        {text: 5.0, f"{text} Five.": 1.0, "One. Two. Three.": -3.0, "Four.": 3.0}
    )
    plan = SearchPlan("q", 6, 1, rerank=RerankPlan(), refine=RefinePlan(), context=ContextPlan())
    result = await search(plan, Ports(legs.retrieve, score=scorer))
    assert [(hit.id, hit.text, hit.refined) for hit in result.hits] == [("d2", text, "Four.")]
    assert scorer.asked[2:] == ["One. Two. Three.", "Four."]
    assert result.context is not None
    assert result.context.text == "[1] Four."


async def test_refining_needs_neither_correction_nor_reranking() -> None:
    plan = SearchPlan("q", 6, 2, refine=RefinePlan(mode="passage", min_score=0.6))
    result = await ranked(plan)
    assert [(hit.id, hit.refined) for hit in result.hits] == [("d0", ""), ("d1", "d1")]
    assert (result.tally.passes, result.verdict) == (2, "off")


@pytest.mark.parametrize(
    ("best_effort", "returned", "text"),
    [("empty", [], ""), ("best_effort", ["d0", "d3"], "[1] d0\n\n[2] d3")],
)
async def test_all_incorrect_is_said_and_the_answer_is_empty_or_marked(
    best_effort: str, returned: list[str], text: str
) -> None:
    correction = CorrectionPlan(on_all_incorrect=best_effort)  # type: ignore[arg-type]
    plan = replace(RERANK, correction=correction, context=ContextPlan())
    result = await ranked(plan, FakeLegs(dense=["d3", "d0"]))
    assert ([hit.id for hit in result.hits], result.verdict) == (returned, "incorrect")
    assert [hit.grade.value for hit in result.hits if hit.grade] == ["incorrect"] * len(returned)
    assert result.context is not None
    assert result.context.text == text


async def test_without_a_scorer_every_stage_that_needs_one_is_passed_by() -> None:
    plan = replace(RERANK, correction=CorrectionPlan(), refine=RefinePlan())
    result = await search(plan, Ports(FakeLegs(dense=IDS).retrieve))
    assert [hit.id for hit in result.hits] == IDS[:3]
    assert (result.verdict, result.rerank_applied, result.degraded) == ("off", False, ())


async def test_each_stage_has_its_time() -> None:
    result = await ranked(RERANK)
    assert set(result.timings_ms) == {
        "embed",
        "retrieve",
        "correct",
        "rerank",
        "refine",
        "assemble",
        "total",
    }
