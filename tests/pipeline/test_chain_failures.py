"""Failure as data: whatever part fails, the search answers and names exactly that part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pipeline.chain import Ports, SearchPlan, search
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.errors import DeadlineExceeded, NotFound, OnepassError, Overloaded, Unavailable
from pipeline.expansion import ExpansionPlan
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan
from pipeline.scoring import Pair, ScoreAnswer
from tests.fakes import CountingScorer, FakeEmbedder, FakeLegs, FakeSource

IDS = ["a", "b", "c"]
LOW = dict.fromkeys(IDS, -9.0)
ALL_ON = SearchPlan(
    "q",
    top_k=4,
    final_top_k=3,
    expansion=ExpansionPlan(templates=("about {query}",)),
    correction=CorrectionPlan(fallback="corpus:other"),
    rerank=RerankPlan(),
    refine=RefinePlan(),
    context=ContextPlan(),
    include_trace=True,
)


def ports(scorer: CountingScorer, legs: FakeLegs | None = None) -> Ports:
    retriever = legs or FakeLegs(dense=IDS, bm25=IDS[:1])
    return Ports(retriever.retrieve, FakeEmbedder(), scorer, fallback=FakeSource("x"))


async def test_with_every_stage_on_and_nothing_failing_nothing_is_degraded() -> None:
    scorer = CountingScorer({"a": 5.0, "b": 4.0, "c": 3.0})
    result = await search(ALL_ON, ports(scorer))
    assert ([hit.id for hit in result.hits], result.degraded) == (IDS, ())
    assert (result.tally.passes, scorer.passes, result.verdict) == (3, 3, "correct")


@pytest.mark.parametrize(
    ("plan", "degraded"),
    [
        (ALL_ON, ("correct", "rerank", "refine")),
        (replace(ALL_ON, correction=None), ("rerank", "refine")),
        (replace(ALL_ON, correction=None, rerank=None), ("refine",)),
        (replace(ALL_ON, rerank=None, refine=None), ("correct",)),
        (replace(ALL_ON, correction=None, rerank=None, refine=None), ()),
    ],
)
async def test_a_dead_scorer_is_named_by_the_stages_that_needed_it(
    plan: SearchPlan, degraded: tuple[str, ...]
) -> None:
    scorer = CountingScorer({})
    scorer.down = True
    result = await search(plan, ports(scorer))
    assert (result.degraded, result.rerank_applied) == (degraded, False)
    assert [hit.id for hit in result.hits] == IDS
    assert [hit.stamp for hit in result.hits] == [None, None, None]
    assert (result.verdict, result.corrections) == ("off" if not plan.correction else None, 0)


async def test_after_its_first_failure_the_scorer_is_not_asked_again() -> None:
    calls = 0

    async def down(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        nonlocal calls
        calls += 1
        raise DeadlineExceeded("no score in time")

    result = await search(ALL_ON, replace(ports(CountingScorer({})), score=down))
    assert (calls, result.degraded) == (1, ("correct", "rerank", "refine"))
    assert result.trace is not None
    assert result.trace["failures"] == ["no score in time"]


async def test_a_scorer_that_dies_before_refining_leaves_the_ranking_as_it_is() -> None:
    text = "One. Two. Three. Four."
    scorer = CountingScorer({text: 2.0, "b": 3.0})
    scorer.calls_left = 1
    legs = FakeLegs(dense=["a", "b"])
    legs.texts = {"a": text}
    plan = replace(ALL_ON, correction=None)
    result = await search(plan, ports(scorer, legs))
    assert [(hit.id, hit.refined) for hit in result.hits] == [("b", None), ("a", None)]
    assert (result.degraded, result.rerank_applied) == (("refine",), True)


async def test_what_a_dying_scorer_did_score_is_kept_and_comes_first() -> None:
    ids = [f"n{n}" for n in range(6)]
    scorer = CountingScorer(dict.fromkeys(ids, 0.0))
    scorer.calls_left = 1
    plan = SearchPlan("q", 2, 5, correction=CorrectionPlan(), rerank=RerankPlan())
    result = await search(plan, Ports(FakeLegs(dense=ids).retrieve, score=scorer))
    assert [(hit.id, hit.stamp is not None) for hit in result.hits] == [
        ("n0", True),
        ("n1", True),
        ("n2", False),
        ("n3", False),
        ("n4", False),
    ]
    assert (result.degraded, result.corrections) == (("correct", "rerank"), 1)


async def test_a_poisoned_text_fails_alone_is_kept_and_is_named() -> None:
    scorer = CountingScorer({"a": 1.0, "c": 2.0})
    plan = replace(ALL_ON, correction=None, refine=None)
    result = await search(plan, ports(scorer))
    assert [(hit.id, hit.stamp is not None) for hit in result.hits] == [
        ("c", True),
        ("a", True),
        ("b", False),
    ]
    assert (result.degraded, result.rerank_applied) == (("rerank",), False)


async def test_one_leg_failing_is_named_and_the_other_answers() -> None:
    legs = FakeLegs(dense=IDS, bm25=["b"])
    legs.failing = {"dense"}
    result = await search(ALL_ON, ports(CountingScorer({"b": 5.0}), legs))
    assert ([hit.id for hit in result.hits], result.degraded) == (["b"], ("leg:dense",))


async def test_an_embedder_that_fails_is_the_dense_legs_failure() -> None:
    embed = FakeEmbedder()
    embed.down = True
    legs = FakeLegs(dense=IDS, bm25=["c"])
    plan = SearchPlan("q", 4, 3, expansion=ExpansionPlan(templates=("about {query}",)))
    result = await search(plan, Ports(legs.retrieve, embed))
    assert ([hit.id for hit in result.hits], result.degraded) == (["c"], ("leg:dense",))


@pytest.mark.parametrize(
    ("failing", "degraded", "seen"),
    [
        ({"dense": 2}, ("leg:dense",), {"a", "b", "x", "y"}),
        ({"dense": 2, "bm25": 2}, ("leg:dense", "leg:bm25"), {"a", "b", "x"}),
    ],
)
async def test_legs_failing_while_continuing_are_named_and_what_was_found_is_an_answer(
    failing: dict[str, int], degraded: tuple[str, ...], seen: set[str]
) -> None:
    legs = FakeLegs(dense=["a", "b", "c"], bm25=["a", "x", "y"])
    legs.failing_beyond = failing
    scorer = CountingScorer(dict.fromkeys("abcxy", -9.0) | {"a": 0.0})
    plan = SearchPlan("q", 3, 3, leg_k=2, correction=CorrectionPlan())
    result = await search(plan, Ports(legs.retrieve, score=scorer))
    assert ([hit.id for hit in result.hits], result.degraded) == (["a"], degraded)
    assert ({hit.id for hit in result.candidates}, result.corrections) == (seen, 1)


async def test_a_language_model_that_fails_is_expansion_and_the_query_answers() -> None:
    async def generate(messages: Sequence[Mapping[str, str]]) -> str:
        raise Unavailable("chat/m is down")

    plan = SearchPlan("q", 4, 3, expansion=ExpansionPlan(step_back=True), include_trace=True)
    result = await search(plan, Ports(FakeLegs(dense=IDS).retrieve, generate=generate))
    assert ([hit.id for hit in result.hits], result.degraded) == (IDS, ("expansion",))
    assert result.trace is not None
    assert result.trace["failures"] == ["step_back: chat/m is down"]


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("web search is down"),
        DeadlineExceeded("no answer"),
        NotFound("no such corpus", "corpus"),
    ],
)
async def test_a_fallback_that_fails_is_named_and_the_verdict_stands(error: OnepassError) -> None:
    scorer, source = CountingScorer(LOW), FakeSource(error=error)
    plan = replace(ALL_ON, refine=None)
    result = await search(plan, replace(ports(scorer), fallback=source))
    assert (result.hits, result.verdict, result.degraded) == ((), "incorrect", ("fallback",))
    assert (result.corrections, source.depths) == (1, [4])
    assert result.trace is not None
    assert result.trace["failures"] == [error.message]


async def test_counting_that_fails_is_no_failure_of_the_search() -> None:
    async def count(texts: Sequence[str]) -> Sequence[int]:
        raise Unavailable("no tokenizer")

    plan = SearchPlan("q", 4, 3, context=ContextPlan())
    result = await search(plan, Ports(FakeLegs(dense=IDS).retrieve, count=count))
    assert result.context is not None
    assert (result.context.counted_by, result.degraded) == ("estimate", ())


@pytest.mark.parametrize("part", ["scorer", "leg", "expansion", "fallback"])
async def test_closed_on_error_any_failed_part_is_unavailable_and_named(part: str) -> None:
    async def generate(messages: Sequence[Mapping[str, str]]) -> str:
        raise Unavailable("down")

    scorer, legs = CountingScorer(LOW), FakeLegs(dense=IDS, bm25=IDS)
    source = FakeSource("x", error=Unavailable("down") if part == "fallback" else None)
    scorer.logits = LOW | {"x": 5.0}
    scorer.down = part == "scorer"
    legs.failing = {"bm25"} if part == "leg" else set()
    expansion = ExpansionPlan(step_back=True) if part == "expansion" else None
    plan = replace(ALL_ON, expansion=expansion, on_error="closed")
    given = Ports(legs.retrieve, FakeEmbedder(), scorer, generate, source)
    named = {"scorer": "correct, rerank, refine", "leg": "leg:bm25"}.get(part, part)
    with pytest.raises(Unavailable, match=f"a needed part failed: {named}$"):
        await search(plan, given)


async def test_overload_of_the_scorer_or_the_fallback_passes_through() -> None:
    async def full(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        raise Overloaded("full", None, 1)

    with pytest.raises(Overloaded):
        await search(ALL_ON, replace(ports(CountingScorer({})), score=full))
    busy = FakeSource(error=Overloaded("full", None, 1))
    with pytest.raises(Overloaded):
        await search(ALL_ON, replace(ports(CountingScorer(LOW)), fallback=busy))


async def test_closed_on_error_a_part_that_had_no_time_is_a_deadline() -> None:
    async def late(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        raise DeadlineExceeded("no time is left for scoring")

    plan = SearchPlan("q", 3, 3, rerank=RerankPlan(), on_error="closed")
    with pytest.raises(DeadlineExceeded, match="rerank"):
        await search(plan, Ports(FakeLegs(dense=["a"]).retrieve, score=late))


async def test_a_fallback_that_gave_only_a_part_is_named_and_its_hits_are_there() -> None:
    source = FakeSource("x")
    source.partly = Unavailable("legs of the fallback corpus failed: dense")
    plan = SearchPlan("q", 3, 3, correction=CorrectionPlan(fallback="corpus:other"))
    scorer = CountingScorer({"a": -9.0, "x": 9.0})
    ports = Ports(FakeLegs(dense=["a"]).retrieve, score=scorer, fallback=source)
    result = await search(plan, ports)
    assert ([one.id for one in result.hits], result.degraded) == (["x"], ("fallback",))
