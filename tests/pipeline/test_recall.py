"""Recalling: the query beside its variants, in what order and at what cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from pipeline.errors import NotFound, Overloaded, Unavailable
from pipeline.expansion import ExpansionPlan, Generate, Turn
from pipeline.fusion import FusionPlan
from pipeline.legs import LegResult, Variant
from pipeline.recall import (
    MAX_VARIANT_DEPTH,
    Recalled,
    RecallPlan,
    recall,
    search_variants,
    together,
)
from pipeline.stopwatch import Stopwatch
from tests.fakes import FakeEmbedder, FakeLegs

HISTORY = (Turn("user", "Who wrote Faust?"), Turn("assistant", "Goethe."))
TEMPLATES = ExpansionPlan(templates=("what is {query}", "about {query}"))
REWRITING = ExpansionPlan(drift="drop")


def plan(
    expansion: ExpansionPlan | None = None,
    *,
    history: tuple[Turn, ...] = (),
    top_k: int = 10,
    depth: int = 10,
) -> RecallPlan:
    return RecallPlan("q", top_k, depth, FusionPlan(), history, expansion)


async def recalled(
    plan: RecallPlan,
    legs: FakeLegs,
    embed: FakeEmbedder | None = None,
    generate: Generate | None = None,
) -> Recalled:
    return await recall(plan, legs.retrieve, embed or FakeEmbedder(), generate, Stopwatch())


def answering(text: str) -> Generate:
    async def generate(messages: Sequence[Mapping[str, str]]) -> str:
        return text

    return generate


async def test_the_query_is_retrieved_while_its_variants_are_still_being_written() -> None:
    legs, retrieved = FakeLegs(bm25=["a"]), asyncio.Event()

    async def generate(messages: Sequence[Mapping[str, str]]) -> str:
        await retrieved.wait()  # so nothing is written before the query was retrieved
        return "written"

    async def retrieve(variants: Sequence[Variant], depth: int) -> Sequence[LegResult]:
        results = await legs.retrieve(variants, depth)
        retrieved.set()
        return results

    expansion = ExpansionPlan(step_back=True, timeout_s=60)
    await recall(plan(expansion), retrieve, FakeEmbedder(), generate, Stopwatch())
    assert legs.asked == ["q", "written"]


async def test_all_variants_are_embedded_in_one_call_and_searched_in_one() -> None:
    legs, embed = FakeLegs(bm25=["a"]), FakeEmbedder()
    result = await recalled(plan(TEMPLATES), legs, embed)
    assert embed.calls == [["q"], ["what is q", "about q"]]
    assert legs.depths == [10, 10]
    assert [variant.text for variant in result.variants] == ["q", "what is q", "about q"]


async def test_without_expansion_the_query_alone_is_embedded_and_searched() -> None:
    legs, embed = FakeLegs(bm25=["a"]), FakeEmbedder()
    result = await recalled(plan(), legs, embed)
    assert (embed.calls, legs.asked) == ([["q"]], ["q"])
    assert (result.query, result.drifts, result.expansion_failures) == ("q", (), ())


async def test_a_hit_that_only_a_variant_finds_is_among_the_candidates() -> None:
    legs = FakeLegs(dense=["a"])
    legs.by_variant = {"about q": {"dense": ["b"]}}
    result = await recalled(plan(ExpansionPlan(templates=("about {query}",))), legs)
    assert [(hit.id, hit.legs[0].variant) for hit in result.hits] == [("a", 0), ("b", 1)]


@pytest.mark.parametrize(("weight", "first"), [(0.5, "a"), (2.0, "b")])
async def test_a_variants_weight_acts_on_what_it_finds(weight: float, first: str) -> None:
    legs = FakeLegs(dense=["a"])
    legs.by_variant = {"about q": {"dense": ["b"]}}
    expansion = ExpansionPlan(templates=("about {query}",), weights={"template": weight})
    result = await recalled(plan(expansion), legs)
    assert result.hits[0].id == first


async def test_a_hypothetical_document_goes_to_the_dense_leg_alone() -> None:
    legs = FakeLegs(dense=["a"], bm25=["b"])
    legs.by_variant = {"a passage": {"dense": ["c"], "bm25": ["d"]}}
    result = await recalled(plan(ExpansionPlan(hyde=1)), legs, generate=answering("a passage"))
    assert {hit.id for hit in result.hits} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("mode", "searched", "found"),
    [
        ("drop", ["q", "near q"], ["a"]),
        ("observe", ["q", "far q", "near q"], ["a", "far"]),
        ("off", ["q", "far q", "near q"], ["a", "far"]),
    ],
)
async def test_a_variant_that_drifted_is_searched_unless_it_is_to_be_dropped(
    mode: str, searched: list[str], found: list[str]
) -> None:
    legs = FakeLegs(dense=["a"])
    legs.by_variant = {"far q": {"dense": ["far"]}}
    expansion = ExpansionPlan(templates=("far {query}", "near {query}"), drift=mode)  # type: ignore[arg-type]
    result = await recalled(plan(expansion), legs, FakeEmbedder({"far q": (0, 1)}))
    assert (legs.asked, [hit.id for hit in result.hits]) == (searched, found)
    assert [variant.text for variant in result.variants] == searched
    assert [drift.drifted for drift in result.drifts] == [True, False]


async def test_hits_are_judged_by_the_rewritten_query() -> None:
    result = await recalled(
        plan(REWRITING, history=HISTORY), FakeLegs(dense=["a"]), generate=answering("Who was he?")
    )
    assert result.query == "Who was he?"


async def test_a_rewriting_that_drifted_and_was_dropped_leaves_the_original_to_judge() -> None:
    embed = FakeEmbedder({"Who was he?": (0, 1)})
    result = await recalled(
        plan(REWRITING, history=HISTORY),
        FakeLegs(dense=["a"]),
        embed,
        generate=answering("Who was he?"),
    )
    assert (result.query, [v.text for v in result.variants]) == ("q", ["q"])


async def test_a_language_model_that_fails_is_named_and_the_query_answers() -> None:
    async def generate(messages: Sequence[Mapping[str, str]]) -> str:
        raise Unavailable("chat/m is down")

    result = await recalled(
        plan(ExpansionPlan(step_back=True)), FakeLegs(dense=["a"]), generate=generate
    )
    assert [hit.id for hit in result.hits] == ["a"]
    assert result.expansion_failures == ("step_back: chat/m is down",)


async def test_without_vectors_nothing_has_drifted_and_every_variant_is_searched() -> None:
    embed, legs = FakeEmbedder(), FakeLegs(bm25=["a"])
    embed.down = True
    result = await recalled(plan(TEMPLATES), legs, embed)
    assert legs.asked == ["q", "what is q", "about q"]
    assert [drift.drifted for drift in result.drifts] == [False, False]


async def test_a_leg_that_fails_for_several_variants_is_named_once() -> None:
    legs = FakeLegs(dense=["a"], bm25=["b"])
    legs.failing = {"dense"}
    result = await recalled(plan(TEMPLATES), legs)
    assert (result.failed_legs, [hit.id for hit in result.hits]) == (("dense",), ["b"])


async def test_every_leg_of_every_variant_failing_is_an_error() -> None:
    legs = FakeLegs(dense=["a"])
    legs.failing = {"dense"}
    with pytest.raises(Unavailable, match=r"every leg failed \(dense: boom\)"):
        await recalled(plan(TEMPLATES), legs)


@pytest.mark.parametrize("error", [NotFound("no such corpus", "corpus"), Overloaded("full")])
async def test_what_is_no_failure_of_a_leg_is_raised_and_ends_the_writing(error: Exception) -> None:
    ended = asyncio.Event()

    async def generate(messages: Sequence[Mapping[str, str]]) -> str:
        try:
            return await asyncio.Future[str]()
        finally:
            ended.set()

    async def retrieve(variants: Sequence[Variant], depth: int) -> Sequence[LegResult]:
        raise error

    expansion = ExpansionPlan(step_back=True, timeout_s=60)
    with pytest.raises(type(error)):
        await recall(plan(expansion), retrieve, FakeEmbedder(), generate, Stopwatch())
    assert ended.is_set()


@pytest.mark.parametrize(
    ("ids", "depth", "exhausted"),
    [(["a", "b"], 3, True), (["a", "b", "c"], 3, False), (["a", "b", "c", "d"], 9, False)],
)
async def test_legs_are_exhausted_when_they_gave_less_than_asked_for_and_all_of_it_is_here(
    ids: list[str], depth: int, exhausted: bool
) -> None:
    result = await recalled(plan(top_k=3, depth=depth), FakeLegs(dense=ids))
    assert result.exhausted is exhausted


async def test_times_tell_embedding_retrieving_and_expanding_apart() -> None:
    watch = Stopwatch()
    await recall(plan(TEMPLATES), FakeLegs(dense=["a"]).retrieve, FakeEmbedder(), None, watch)
    assert set(watch.total()) == {"embed", "retrieve", "expand", "total"}


async def test_whichever_side_raises_first_ends_the_other_at_once() -> None:
    ended = asyncio.Event()

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def failing() -> None:
        raise NotFound("no corpus", "corpus")

    for left, right in ((waiting(), failing()), (failing(), waiting())):
        ended.clear()
        with pytest.raises(NotFound):
            await together(left, right)
        assert ended.is_set()


async def test_variants_besides_the_query_are_searched_no_deeper_than_their_bound() -> None:
    ids = [f"n{n:03d}" for n in range(400)]
    legs = FakeLegs(bm25=ids)
    asked: list[tuple[list[int], int]] = []

    async def retrieve(variants: Sequence[Variant], depth: int) -> Sequence[LegResult]:
        asked.append(([variant.number for variant in variants], depth))
        return await legs.retrieve(variants, depth)

    variants = [Variant(0, "original", "q"), Variant(1, "template", "t")]
    results = await search_variants(retrieve, variants, 300)
    assert asked == [([0], 300), ([1], MAX_VARIANT_DEPTH)]
    assert [len(result.hits) for result in results] == [300, 200]
    asked.clear()
    await search_variants(retrieve, variants, 200)
    assert asked == [([0, 1], 200)]
