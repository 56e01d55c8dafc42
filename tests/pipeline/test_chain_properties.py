"""What holds of any search: whatever is switched on, found, poisoned or down."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.boosting import BoostRule
from pipeline.chain import Ports, SearchPlan, SearchResult, search
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.errors import Unavailable
from pipeline.expansion import ExpansionPlan
from pipeline.filters import parse_filter
from pipeline.grading import Thresholds
from pipeline.hits import Hit, effective_score, stable_key
from pipeline.legs import LegResult, Variant
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan
from tests.fakes import CountingScorer, FakeEmbedder, FakeLegs, FakeSource

NAMES = [f"n{n}" for n in range(12)]
# One text of two strips, of which each is another hit's whole text too, and one text of two hits.
STRIPS = ("One. Two. Three.", "Four.")
TEXTS = {"n0": " ".join(STRIPS), "n1": STRIPS[0], "n2": STRIPS[1], "n3": "n4"}
ALL_TEXTS = sorted({*NAMES, *TEXTS.values()})

rankings = st.lists(st.sampled_from(NAMES), max_size=12)
tables = st.fixed_dictionaries({text: st.floats(-12, 12) for text in ALL_TEXTS})
poisoned_tables = st.builds(
    lambda table, poisoned: {text: table[text] for text in table.keys() - poisoned},
    tables,
    st.sets(st.sampled_from(ALL_TEXTS), max_size=3),
)
sizes = st.integers(1, 12)
fractions = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
expansions = st.sampled_from([ExpansionPlan(templates=("about {query}",)), ExpansionPlan(hyde=1)])
corrections = st.builds(
    CorrectionPlan,
    thresholds=st.sampled_from([Thresholds(), Thresholds(1.0, 1.0), Thresholds(0.5, 0.02)]),
    by_model=st.sampled_from([{}, {"fake@1": None}]),
    min_hits=st.integers(1, 5),
    fill=st.booleans(),
    max_corrections=st.integers(0, 2),
    fallback=st.none() | st.just("corpus:other"),
    on_all_incorrect=st.sampled_from(["empty", "best_effort"]),
)
reranks = st.builds(RerankPlan, st.none() | sizes, st.booleans(), st.none() | fractions)
boosts = st.lists(
    st.builds(
        BoostRule,
        st.sampled_from(NAMES).map(lambda name: parse_filter({"field": "name", "eq": name})),
        st.floats(0.01, 100),
    ),
    max_size=3,
).map(tuple)
plans = st.builds(
    SearchPlan,
    query=st.just("q"),
    top_k=sizes,
    final_top_k=sizes,
    leg_k=st.none() | sizes,
    expansion=st.none() | expansions,
    correction=st.none() | corrections,
    rerank=st.none() | reranks,
    boosts=boosts,
    refine=st.none() | st.builds(RefinePlan, st.sampled_from(["sentences", "passage"]), fractions),
    context=st.none() | st.builds(ContextPlan, st.sampled_from([3, 4000])),
    include_trace=st.just(True),
)


@dataclass
class World:
    """All that a search can reach; `permuted` turns the order in which legs answer around."""

    dense: Sequence[str]
    bm25: Sequence[str]
    variant: Sequence[str]
    elsewhere: Sequence[str]
    logits: Mapping[str, float]
    permuted: bool = False
    failing_leg: str | None = None
    failing_beyond: Mapping[str, int] = field(default_factory=dict)
    scorer_calls: int | None = None
    embedder_down: bool = False
    chat_down: bool = False
    fallback_down: bool = False

    def run(self, plan: SearchPlan) -> tuple[SearchResult, CountingScorer, FakeSource]:
        legs = FakeLegs(dense=self.dense, bm25=self.bm25)
        legs.texts = TEXTS
        legs.by_variant = {
            text: {"dense": self.variant, "bm25": self.variant} for text in ("about q", "written")
        }
        legs.failing = {self.failing_leg} if self.failing_leg else set()
        legs.failing_beyond = dict(self.failing_beyond)
        embed = FakeEmbedder()
        embed.down = self.embedder_down
        scorer = CountingScorer(self.logits)
        scorer.calls_left = self.scorer_calls
        down = Unavailable("down") if self.fallback_down else None
        source = FakeSource(*self.elsewhere, error=down)

        async def retrieve(variants: Sequence[Variant], depth: int) -> Sequence[LegResult]:
            results = await legs.retrieve(variants, depth)
            return results[::-1] if self.permuted else results

        async def generate(messages: Sequence[Mapping[str, str]]) -> str:
            if self.chat_down:
                raise Unavailable("down")
            return "written"

        ports = Ports(retrieve, embed, scorer, generate, source)
        return asyncio.run(search(plan, ports)), scorer, source


found = {
    "dense": rankings,
    "bm25": rankings,
    "variant": rankings,
    "elsewhere": st.lists(st.sampled_from(NAMES), max_size=5, unique=True),
}
worlds = st.builds(World, **found, logits=tables)
troubled = worlds | st.builds(
    World,
    **found,
    logits=poisoned_tables,
    failing_leg=st.none() | st.just("dense"),
    failing_beyond=st.dictionaries(st.sampled_from(["dense", "bm25"]), st.integers(12, 20)),
    scorer_calls=st.none() | st.integers(0, 3),
    embedder_down=st.booleans(),
    chat_down=st.booleans(),
    fallback_down=st.booleans(),
)


def keys(hits: Sequence[Hit]) -> list[tuple[str, ...]]:
    return [stable_key(hit) for hit in hits]


@given(plans, troubled)
def test_no_pair_is_scored_twice_and_every_pass_is_counted(plan: SearchPlan, world: World) -> None:
    result, scorer, _ = world.run(plan)
    assert [text for text, times in Counter(scorer.asked).items() if times > 1] == []
    assert result.tally.passes == scorer.passes


@given(plans, troubled)
def test_every_candidate_is_returned_once_or_its_end_is_told(
    plan: SearchPlan, world: World
) -> None:
    result, _, _ = world.run(plan)
    returned, candidates = keys(result.hits), keys(result.candidates)
    assert len(set(candidates)) == len(candidates)
    assert len(set(returned)) == len(returned) <= plan.final_top_k
    assert set(returned) <= set(candidates)
    assert [hit.rank for hit in result.hits] == list(range(1, len(returned) + 1))
    assert result.trace is not None
    outcomes = Counter(way["outcome"] for way in result.trace["hits"])
    assert outcomes["returned"] == len(returned)
    assert outcomes.total() == len(candidates)
    assert set(outcomes) <= {"returned", "trimmed", *droppers(plan)}


def droppers(plan: SearchPlan) -> set[str]:
    """The ends that a plan allows."""
    drops_scored = plan.rerank is not None and plan.rerank.min_score is not None
    drops_rest = plan.rerank is not None and not plan.rerank.append_remaining
    return {
        *({"dropped by correction"} if plan.correction else ()),
        *({"dropped by reranking"} if drops_scored or drops_rest else ()),
    }


@given(plans, troubled)
def test_the_order_is_the_same_on_every_run_in_whatever_order_legs_answer(
    plan: SearchPlan, world: World
) -> None:
    first, scorer, _ = world.run(plan)
    for permuted in (False, True):
        again, other, _ = replace(world, permuted=permuted).run(plan)
        assert (again.hits, again.candidates) == (first.hits, first.candidates)
        assert (again.context, again.tally) == (first.context, first.tally)
        assert other.asked == scorer.asked


@given(plans, troubled)
def test_scores_of_one_kind_never_increase_down_the_list(plan: SearchPlan, world: World) -> None:
    result, _, _ = world.run(plan)
    shown: dict[str, list[float]] = {}
    for hit in result.hits:
        score, kind = effective_score(hit)
        assert score is not None
        shown.setdefault(kind, []).append(score)
    for scores in shown.values():
        assert scores == sorted(scores, reverse=True)
    scored = [hit.stamp is not None for hit in result.hits]
    if plan.correction or plan.rerank or plan.boosts:
        assert scored == sorted(scored, reverse=True)


@given(plans, troubled)
def test_a_stamp_is_its_own_texts_score_and_a_text_without_one_has_none(
    plan: SearchPlan, world: World
) -> None:
    result, scorer, _ = world.run(plan)
    for hit in result.candidates:
        if hit.stamp is None:
            continue
        assert hit.text in scorer.asked
        assert hit.stamp.logit == world.logits[hit.text]
        assert hit.stamp_for("q", result.model) == hit.stamp


@given(plans, worlds)
def test_refining_and_assembling_move_no_hit_and_rewrite_no_text(
    plan: SearchPlan, world: World
) -> None:
    full, _, _ = world.run(plan)
    bare, _, _ = world.run(replace(plan, refine=None, context=None))
    assert [replace(hit, refined=None) for hit in full.hits] == list(bare.hits)


@given(plans, worlds)
def test_where_nothing_fails_nothing_is_degraded(plan: SearchPlan, world: World) -> None:
    result, _, _ = world.run(plan)
    assert result.degraded == ()
    assert result.rerank_applied is (plan.rerank is not None)


@given(plans, worlds)
def test_without_anything_that_drops_all_candidates_come_back_up_to_the_last_place(
    plan: SearchPlan, world: World
) -> None:
    keeping = None if plan.rerank is None else RerankPlan(plan.rerank.top_n)
    result, _, _ = world.run(replace(plan, correction=None, rerank=keeping))
    assert len(result.hits) == min(plan.final_top_k, len(result.candidates))


@given(plans, worlds, st.sampled_from(["dense", "bm25"]))
def test_a_failed_leg_is_named_and_nothing_else(plan: SearchPlan, world: World, leg: str) -> None:
    result, _, _ = replace(world, failing_leg=leg).run(plan)
    assert result.degraded == (f"leg:{leg}",)


@given(plans, worlds)
def test_a_failed_embedder_is_the_dense_leg_and_nothing_else(
    plan: SearchPlan, world: World
) -> None:
    result, _, _ = replace(world, embedder_down=True).run(plan)
    assert result.degraded == ("leg:dense",)


@given(plans, worlds)
def test_a_failed_language_model_is_expansion_and_nothing_else(
    plan: SearchPlan, world: World
) -> None:
    result, _, _ = replace(world, chat_down=True).run(plan)
    asked = plan.expansion is not None and plan.expansion.hyde > 0
    assert result.degraded == (("expansion",) if asked else ())


@given(plans, worlds)
def test_a_failed_fallback_is_named_if_it_was_asked_and_nothing_else(
    plan: SearchPlan, world: World
) -> None:
    result, _, source = replace(world, fallback_down=True).run(plan)
    assert len(source.depths) <= 1
    assert result.degraded == (("fallback",) if source.depths else ())


@given(plans, worlds)
def test_a_dead_scorer_is_named_by_every_stage_that_had_something_to_score(
    plan: SearchPlan, world: World
) -> None:
    result, scorer, _ = replace(world, scorer_calls=0).run(plan)
    stages: dict[str, Any] = {
        "correct": plan.correction,
        "rerank": plan.rerank,
        "refine": plan.refine,
    }
    needing = tuple(name for name, stage in stages.items() if stage) if result.candidates else ()
    assert (result.degraded, scorer.passes) == (needing, 0)
    assert len(result.hits) == min(plan.final_top_k, len(result.candidates))


@given(plans, worlds)
def test_correction_looks_further_a_bounded_number_of_times(plan: SearchPlan, world: World) -> None:
    result, _, source = world.run(plan)
    limit = plan.correction.max_corrections if plan.correction else 0
    assert result.corrections <= limit
    assert len(source.depths) <= min(limit, 1)
    if source.depths:
        assert result.trace is not None
        assert result.trace["correction"][-1]["step"] == "fallback"
