"""Correction's fallback: another source, asked only where nothing here is correct."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.chain import Ports, SearchPlan, SearchResult, search
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.errors import Unavailable
from pipeline.grading import Thresholds
from pipeline.reranking import RerankPlan
from tests.fakes import CountingScorer, FakeLegs, FakeSource

HIGH, MIDDLE, LOW = 5.0, 0.0, -9.0
FALLBACK = CorrectionPlan(fallback="corpus:other")
PLAN = SearchPlan("q", 4, 3, correction=FALLBACK, rerank=RerankPlan(), include_trace=True)


async def found(
    scorer: CountingScorer,
    source: FakeSource,
    *,
    ids: list[str],
    plan: SearchPlan = PLAN,
) -> SearchResult:
    return await search(plan, Ports(FakeLegs(dense=ids).retrieve, score=scorer, fallback=source))


async def test_where_a_hit_is_correct_no_other_source_is_asked() -> None:
    source = FakeSource("x")
    result = await found(CountingScorer({"a": HIGH, "b": LOW}), source, ids=["a", "b"])
    assert (source.depths, result.corrections, result.verdict) == ([], 0, "correct")


async def test_what_another_source_has_is_graded_merged_and_marked_with_its_origin() -> None:
    scorer = CountingScorer({"a": MIDDLE, "b": LOW, "x": HIGH, "y": LOW})
    source = FakeSource("x", "y")
    result = await found(scorer, source, ids=["a", "b"])
    assert [(hit.id, hit.origin) for hit in result.hits] == [("x", "corpus:other"), ("a", None)]
    assert (source.depths, scorer.asked) == ([4], ["a", "b", "x", "y"])
    assert (result.verdict, result.corrections, result.degraded) == ("correct", 1, ())
    assert {hit.id for hit in result.candidates} == {"a", "b", "x", "y"}


@pytest.mark.parametrize(("fallback", "origin"), [("corpus:news", "corpus:news"), ("http", "http")])
async def test_an_origin_is_the_fallbacks_configured_name(fallback: str, origin: str) -> None:
    plan = replace(PLAN, correction=CorrectionPlan(fallback=fallback))
    result = await found(CountingScorer({"x": HIGH}), FakeSource("x"), ids=[], plan=plan)
    assert [hit.origin for hit in result.hits] == [origin]


async def test_ids_that_equal_the_corpuss_own_stay_apart() -> None:
    scorer = CountingScorer({"a": MIDDLE, "b": LOW})
    plan = replace(PLAN, context=ContextPlan())
    result = await found(scorer, FakeSource("a"), ids=["a", "b"], plan=plan)
    assert [(hit.id, hit.origin) for hit in result.hits] == [("a", None), ("a", "corpus:other")]
    assert [(hit.id, hit.origin) for hit in result.candidates] == [
        ("a", None),
        ("b", None),
        ("a", "corpus:other"),
    ]
    assert result.context is not None
    assert [(one.number, one.origin) for one in result.context.citations] == [
        (1, None),
        (2, "corpus:other"),
    ]


async def test_a_text_that_both_sources_hold_is_scored_once() -> None:
    scorer = CountingScorer({"a": MIDDLE})
    result = await found(scorer, FakeSource("a"), ids=["a"])
    assert (scorer.asked, result.tally.passes) == (["a"], 1)
    assert [hit.stamp is not None for hit in result.hits] == [True, True]


async def test_another_source_is_asked_once_after_the_corpus_was_asked_deeper() -> None:
    ids = [f"n{n:02d}" for n in range(20)]
    scorer, source = CountingScorer(dict.fromkeys([*ids, "x"], LOW)), FakeSource("x")
    legs = FakeLegs(dense=ids)
    result = await search(PLAN, Ports(legs.retrieve, score=scorer, fallback=source))
    assert (legs.depths, source.depths, result.corrections) == ([4, 12], [4], 1)
    assert (result.verdict, scorer.passes) == ("incorrect", 13)


async def test_without_any_hit_another_source_is_still_asked() -> None:
    source = FakeSource("x")
    result = await found(CountingScorer({"x": HIGH}), source, ids=[])
    assert ([hit.id for hit in result.hits], source.depths) == (["x"], [4])
    assert (result.verdict, result.corrections) == ("correct", 1)


async def test_no_hits_anywhere_is_a_verdict_of_its_own() -> None:
    scorer = CountingScorer({})
    result = await found(scorer, FakeSource(), ids=[])
    assert (result.hits, result.verdict, scorer.passes) == ((), "no_hits", 0)
    failing = FakeSource(error=Unavailable("down"))
    result = await found(scorer, failing, ids=[])
    assert (result.verdict, result.degraded) == ("no_hits", ("fallback",))


async def test_no_corrections_at_all_neither_continue_nor_fall_back() -> None:
    ids = [f"n{n:02d}" for n in range(20)]
    scorer, source = CountingScorer(dict.fromkeys(ids, LOW)), FakeSource("x")
    legs = FakeLegs(dense=ids)
    plan = replace(PLAN, correction=replace(FALLBACK, max_corrections=0))
    result = await search(plan, Ports(legs.retrieve, score=scorer, fallback=source))
    assert (legs.depths, source.depths) == ([4], [])
    assert (result.verdict, result.corrections) == ("incorrect", 0)


async def test_a_search_that_names_no_fallback_asks_no_other_source() -> None:
    source = FakeSource("x")
    plan = replace(PLAN, correction=CorrectionPlan())
    result = await found(CountingScorer({"a": LOW}), source, ids=["a"], plan=plan)
    assert (source.depths, result.verdict) == ([], "incorrect")
    off = replace(PLAN, correction=None)
    await found(CountingScorer({"a": LOW}), source, ids=["a"], plan=off)
    assert source.depths == []


async def test_a_failing_scorer_is_no_reason_to_ask_another_source() -> None:
    scorer, source = CountingScorer({}), FakeSource("x")
    scorer.down = True
    result = await found(scorer, source, ids=["a"])
    assert (source.depths, [hit.id for hit in result.hits]) == ([], ["a"])
    assert result.verdict is None


async def test_the_trace_says_what_each_round_of_correction_did() -> None:
    scorer = CountingScorer({"a": MIDDLE, "b": LOW, "x": HIGH})
    result = await found(scorer, FakeSource("x"), ids=["a", "b"])
    assert result.trace is not None
    assert result.trace["correction"] == [
        {
            "step": "grade",
            "action": "ambiguous",
            "correct": 0,
            "ambiguous": 1,
            "incorrect": 1,
            "ungraded": 0,
        },
        {
            "step": "fallback",
            "action": "correct",
            "correct": 1,
            "ambiguous": 1,
            "incorrect": 1,
            "ungraded": 0,
            "source": "corpus:other",
            "new": 1,
        },
    ]


@pytest.mark.parametrize(
    ("model", "verdict", "hits", "asked"),
    [
        ("cohere/m", "correct", ["a"], []),
        ("jina/m", "incorrect", [], [4]),
        ("llm/m", None, ["a", "b"], []),
    ],
)
async def test_thresholds_are_the_models_own_and_a_model_without_any_grades_nothing(
    model: str, verdict: str | None, hits: list[str], asked: list[int]
) -> None:
    scorer = CountingScorer({"a": 0.0, "b": -5.0}, model)
    source = FakeSource()
    by_model = {"cohere/m": Thresholds(0.5, 0.4), "llm/m": None}
    correction = replace(FALLBACK, thresholds=Thresholds(0.9, 0.8), by_model=by_model)
    plan = replace(PLAN, correction=correction)
    result = await found(scorer, source, ids=["a", "b"], plan=plan)
    assert (result.verdict, [hit.id for hit in result.hits]) == (verdict, hits)
    assert (source.depths, result.degraded) == (asked, ())


async def test_a_model_without_thresholds_drops_nothing_and_is_still_ranked_by() -> None:
    scorer = CountingScorer({"a": -5.0, "b": 5.0}, "llm/m")
    plan = replace(PLAN, correction=replace(FALLBACK, by_model={"llm/m": None}))
    result = await found(scorer, FakeSource(), ids=["a", "b"], plan=plan)
    assert [(hit.id, hit.grade) for hit in result.hits] == [("b", None), ("a", None)]
    assert (result.rerank_applied, scorer.passes) == (True, 2)
