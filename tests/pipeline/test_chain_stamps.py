"""One forward pass a pair through the whole chain: who pays, who reads, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.boosting import BoostRule
from pipeline.chain import Ports, SearchPlan, search
from pipeline.corrective import CorrectionPlan
from pipeline.expansion import ExpansionPlan, Turn
from pipeline.hits import effective_score
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan
from pipeline.scoring import Pair, ScoreAnswer, Tally
from pipeline.stamps import pair_digest
from tests.fakes import CountingScorer, FakeEmbedder, FakeLegs

BOTH = SearchPlan("q", 4, 4, correction=CorrectionPlan(), rerank=RerankPlan())


async def test_continuing_embeds_and_writes_nothing_again_and_scores_new_texts_alone() -> None:
    ids = [f"n{n:02d}" for n in range(30)]
    written = 0

    async def generate(messages: object) -> str:
        nonlocal written
        written += 1
        return "written"

    embed, legs = FakeEmbedder(), FakeLegs(dense=ids)
    scorer = CountingScorer(dict.fromkeys(ids, -9.0))
    plan = replace(BOTH, expansion=ExpansionPlan(step_back=True))
    result = await search(plan, Ports(legs.retrieve, embed, scorer, generate))
    assert (result.corrections, legs.depths) == (1, [4, 4, 12])
    assert legs.asked == ["q", "written", "q", "written"]
    assert (written, embed.calls) == (1, [["q"], ["written"]])
    assert sorted(scorer.asked) == ids[:12]


async def test_variants_of_a_query_cost_no_pass_for_what_they_find_alike() -> None:
    scorer, legs = CountingScorer({"a": 1.0, "b": 2.0}), FakeLegs(dense=["a"], bm25=["a"])
    legs.by_variant = {"about q": {"dense": ["a", "b"]}}
    plan = SearchPlan("q", 9, 9, expansion=ExpansionPlan(templates=("about {query}",)))
    ports = Ports(legs.retrieve, score=scorer)
    result = await search(replace(plan, rerank=RerankPlan()), ports)
    assert sorted(scorer.asked) == ["a", "b"]
    assert {hit.stamp.pair for hit in result.hits if hit.stamp} == {
        pair_digest("q", "a"),
        pair_digest("q", "b"),
    }


async def test_one_text_under_two_ids_is_scored_once_also_if_found_later() -> None:
    ids = [f"n{n}" for n in range(12)]
    legs = FakeLegs(dense=ids)
    legs.texts = dict.fromkeys(ids, "the same")
    scorer = CountingScorer({"the same": -9.0})
    result = await search(BOTH, Ports(legs.retrieve, score=scorer))
    assert (scorer.asked, len(result.candidates)) == (["the same"], 12)


async def test_a_model_that_changes_while_continuing_scores_the_older_once_and_counts_it() -> None:
    ids = ["a", "b", "c", "d", "e", "f"]
    scorer = CountingScorer(dict.fromkeys(ids, 0.0), "fake@1", "fake@2")
    plan = replace(BOTH, top_k=2)
    result = await search(plan, Ports(FakeLegs(dense=ids).retrieve, score=scorer))
    assert scorer.asked == ["a", "b", "c", "d", "e", "f", "a", "b"]
    assert {hit.stamp.model for hit in result.candidates if hit.stamp} == {"fake@2"}
    assert (result.model, result.tally.passes, result.degraded) == ("fake@2", 8, ())


async def test_a_model_that_changes_between_ranking_and_refining_is_a_failure_of_refining() -> None:
    text = "One. Two. Three. Four."
    legs = FakeLegs(dense=["a"])
    legs.texts = {"a": text}
    scorer = CountingScorer({text: 1.0, "One. Two. Three.": 2.0, "Four.": -2.0}, "fake@1", "fake@2")
    plan = SearchPlan("q", 4, 4, rerank=RerankPlan(), refine=RefinePlan())
    result = await search(plan, Ports(legs.retrieve, score=scorer))
    assert ([hit.refined for hit in result.hits], result.degraded) == ([None], ("refine",))
    assert (result.model, result.tally.passes) == ("fake@1", 3)


async def test_a_strip_that_is_another_candidates_whole_text_is_not_scored_again() -> None:
    legs = FakeLegs(dense=["long", "short"])
    text = "One. Two. Three. Four."
    legs.texts = {"long": text, "short": "Four."}
    scorer = CountingScorer({text: 3.0, "Four.": -1.0, "One. Two. Three.": 2.0})
    plan = SearchPlan("q", 4, 1, rerank=RerankPlan(), refine=RefinePlan())
    result = await search(plan, Ports(legs.retrieve, score=scorer))
    assert [(hit.id, hit.refined) for hit in result.hits] == [("long", "One. Two. Three.")]
    assert scorer.asked == [text, "Four.", "One. Two. Three."]


async def test_correcting_reranking_boosting_and_refining_share_one_pass_a_text() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0, "c": -9.0})
    plan = replace(BOTH, boosts=(BoostRule(factor=2.0),), refine=RefinePlan())
    result = await search(plan, Ports(FakeLegs(dense=["a", "b", "c"]).retrieve, score=scorer))
    assert result.tally == Tally(passes=3, reused=4)
    assert [hit.refined for hit in result.hits] == ["b", "a"]


async def test_a_hit_that_reranking_drops_is_a_candidate_with_its_score() -> None:
    scorer = CountingScorer({"a": 3.0, "b": -3.0})
    plan = SearchPlan("q", 4, 4, rerank=RerankPlan(min_score=0.5))
    result = await search(plan, Ports(FakeLegs(dense=["a", "b"]).retrieve, score=scorer))
    assert [hit.id for hit in result.hits] == ["a"]
    assert [(hit.id, hit.stamp.logit if hit.stamp else None) for hit in result.candidates] == [
        ("a", 3.0),
        ("b", -3.0),
    ]


async def test_scores_have_names_of_their_own_and_no_stage_rewrites_anothers() -> None:
    legs = FakeLegs(dense=["a", "b"], bm25=["b"])
    ports = Ports(legs.retrieve, score=CountingScorer({"a": 3.0, "b": -0.5}))
    plain = await search(replace(BOTH, correction=None, rerank=None), ports)
    before = {hit.id: (hit.retrieval_score, hit.fusion_score, hit.legs) for hit in plain.hits}
    result = await search(replace(BOTH, boosts=(BoostRule(factor=0.5),)), ports)
    after = {hit.id: (hit.retrieval_score, hit.fusion_score, hit.legs) for hit in result.hits}
    assert after == before
    assert [hit.stamp.logit for hit in result.hits if hit.stamp] == [3.0, -0.5]


async def test_the_score_that_orders_is_the_score_that_is_shown_after_a_second_pass_too() -> None:
    ports = Ports(
        FakeLegs(dense=["a", "b", "c"]).retrieve,
        score=CountingScorer({"a": 1.0, "b": 2.0, "c": 3.0}),
    )
    for _ in range(2):
        result = await search(BOTH, ports)
        shown = [effective_score(hit) for hit in result.hits]
        assert [kind for _, kind in shown] == ["cross_encoder"] * 3
        assert [hit.id for hit in result.hits] == ["c", "b", "a"]
        assert shown == sorted(shown, reverse=True)
        assert [hit.retrieval_score for hit in result.hits] == [0.998, 0.999, 1.0]


async def test_a_rewritten_query_is_what_every_text_is_judged_by() -> None:
    asked: list[str] = []
    scorer = CountingScorer({"a": 1.0})

    async def rewrite(messages: object) -> str:
        return "Who was he?"

    async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        asked.append(query)
        return await scorer(query, pairs)

    plan = replace(BOTH, expansion=ExpansionPlan(), history=(Turn("user", "Goethe?"),))
    ports = Ports(FakeLegs(dense=["a"]).retrieve, score=score, generate=rewrite)
    result = await search(plan, ports)
    assert (asked, result.query) == (["Who was he?"], "Who was he?")
