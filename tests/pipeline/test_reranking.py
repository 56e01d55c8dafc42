from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from pipeline.hits import LegEntry
from pipeline.reranking import RerankPlan, rerank
from pipeline.scoring import Tally, stamp_hits
from pipeline.stamps import CROSS_ENCODER_SCORE, RERANKED
from tests.fakes import CountingScorer, hit


async def test_the_best_hit_comes_first_wherever_retrieval_had_it() -> None:
    logits = {f"h{n}": float(-n) for n in range(9)} | {"best": 9.0}
    hits = [hit(identity, 1 / (n + 1)) for n, identity in enumerate(logits)]
    ranking = await rerank("q", hits, RerankPlan(), CountingScorer(logits))
    assert [h.id for h in ranking.hits][:2] == ["best", "h0"]
    assert ranking.applied


async def test_hits_that_carry_scores_are_still_sorted_and_cost_nothing() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    stamped = await stamp_hits("q", [hit("a"), hit("b")], None, scorer)
    ranking = await rerank("q", stamped.hits, RerankPlan(), scorer, model=stamped.model)
    assert [h.id for h in ranking.hits] == ["b", "a"]
    assert (scorer.passes, ranking.tally) == (2, Tally(reused=2))


async def test_reranking_twice_sorts_once_and_costs_nothing() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    once = await rerank("q", [hit("a"), hit("b")], RerankPlan(), scorer)
    twice = await rerank("q", once.hits, RerankPlan(), scorer, model=once.model)
    assert twice.hits == once.hits
    assert (scorer.passes, twice.tally) == (2, Tally())


async def test_the_guard_of_another_query_or_model_does_not_skip_reranking() -> None:
    scorer = CountingScorer({"a": 1.0})
    once = await rerank("q", [hit("a")], RerankPlan(), scorer)
    await rerank("other", once.hits, RerankPlan(), scorer, model=once.model)
    await rerank("q", once.hits, RerankPlan(), scorer, model="fake@2")
    assert scorer.passes == 3


async def test_a_guard_without_scores_and_scores_without_a_guard_are_independent() -> None:
    scorer = CountingScorer({"a": 1.0})
    ranking = await rerank("q", [hit("a").marked(RERANKED, "planted")], RerankPlan(), scorer)
    assert (scorer.passes, ranking.applied) == (1, True)


async def test_top_n_scores_the_window_and_the_rest_follow_in_retrieval_order() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0, "c": 9.0, "d": 8.0})
    hits = [hit("a", 0.4), hit("b", 0.3), hit("c", 0.2), hit("d", 0.1)]
    ranking = await rerank("q", hits, RerankPlan(top_n=2), scorer)
    assert [h.id for h in ranking.hits] == ["b", "a", "c", "d"]
    assert [h.stamp is not None for h in ranking.hits] == [True, True, False, False]
    dropped = await rerank("q", hits, RerankPlan(top_n=2, append_remaining=False), scorer)
    assert [h.id for h in dropped.hits] == ["b", "a"]


async def test_a_stamped_hit_outside_the_window_is_sorted_with_the_others() -> None:
    scorer = CountingScorer({"a": 1.0, "c": 9.0})
    stamped = await stamp_hits("q", [hit("c", 0.1)], None, scorer)
    hits = [hit("a", 0.4), hit("b", 0.3), *stamped.hits]
    ranking = await rerank("q", hits, RerankPlan(top_n=1), scorer, model=stamped.model)
    assert [h.id for h in ranking.hits] == ["c", "a", "b"]
    assert ranking.tally == Tally(passes=1, reused=1)


async def test_a_scorer_that_is_down_keeps_retrieval_order_and_drops_nothing() -> None:
    scorer = CountingScorer({})
    scorer.down = True
    hits = [hit("a", 0.2), hit("b", 0.1)]
    ranking = await rerank("q", hits, RerankPlan(append_remaining=False), scorer)
    assert [h.id for h in ranking.hits] == ["a", "b"]
    assert (ranking.applied, str(ranking.failure)) == (False, "the scorer is down")
    assert RERANKED not in ranking.hits[0].metadata


async def test_ties_fall_by_fusion_then_retrieval_rank_then_id_whatever_the_input_order() -> None:
    scorer = CountingScorer(dict.fromkeys(["a", "b", "c", "d"], 1.0))
    ranked_first = replace(hit("c", 0.5), legs=(LegEntry("dense", 0, 1, 0.9, 0.1),))
    hits = [hit("d", 0.5), hit("a", 0.1), hit("b", 0.5), ranked_first]
    for order in itertools.permutations(hits):
        ranking = await rerank("q", order, RerankPlan(), scorer)
        assert [h.id for h in ranking.hits] == ["c", "b", "d", "a"]


async def test_the_input_is_not_changed_and_the_users_metadata_stays() -> None:
    original = replace(hit("a"), metadata={"nested": {"k": [1]}})
    ranking = await rerank("q", [original], RerankPlan(), CountingScorer({"a": 1.0}))
    assert original.metadata == {"nested": {"k": [1]}}
    added = set(ranking.hits[0].metadata) - set(original.metadata)
    assert added == {CROSS_ENCODER_SCORE, RERANKED}
    assert ranking.hits[0].metadata["nested"] == {"k": [1]}


async def test_strong_scores_do_not_collapse_at_one() -> None:
    scorer = CountingScorer({"a": 40.0, "b": 41.0})
    ranking = await rerank("q", [hit("a", 0.2), hit("b", 0.1)], RerankPlan(), scorer)
    assert [h.id for h in ranking.hits] == ["b", "a"]


@pytest.mark.parametrize(
    ("min_score", "kept"), [(0.5, ["a", "b"]), (0.95, ["a"]), (0.0, ["a", "b", "c"]), (None, "abc")]
)
async def test_a_min_score_is_compared_with_relevance_and_never_with_a_logit(
    min_score: float | None, kept: list[str]
) -> None:
    scorer = CountingScorer({"a": 7.4, "b": 0.6, "c": -3.0})
    hits = [hit("c", 0.3), hit("b", 0.2), hit("a", 0.1)]
    ranking = await rerank("q", hits, RerankPlan(min_score=min_score), scorer)
    assert [h.id for h in ranking.hits] == list(kept)


async def test_a_hit_whose_relevance_is_the_min_score_is_kept() -> None:
    scorer = CountingScorer({"a": 1.0})
    (shown,) = (await rerank("q", [hit("a")], RerankPlan(), scorer)).hits
    assert shown.stamp is not None
    exactly, above = shown.stamp.relevance, shown.stamp.relevance + 1e-16
    assert above > exactly
    for threshold, kept in ((exactly, 1), (above, 0)):
        ranking = await rerank("q", [hit("a")], RerankPlan(min_score=threshold), scorer)
        assert len(ranking.hits) == kept


async def test_the_retrieval_score_decides_nothing_where_there_is_a_min_score() -> None:
    weak = replace(hit("a", 0.01), retrieval_score=0.4)
    ranking = await rerank("q", [weak], RerankPlan(min_score=0.6), CountingScorer({"a": 2.2}))
    assert [(h.id, h.retrieval_score) for h in ranking.hits] == [("a", 0.4)]


async def test_a_min_score_drops_no_hit_without_a_score() -> None:
    scorer = CountingScorer({"a": -5.0})
    hits = [hit("a", 0.3), hit("b", 0.2), hit("c", 0.1)]
    ranking = await rerank("q", hits, RerankPlan(top_n=1, min_score=0.2), scorer)
    assert [h.id for h in ranking.hits] == ["b", "c"]
    scorer.down = True
    ranking = await rerank("q", hits, RerankPlan(min_score=0.2), scorer)
    assert [h.id for h in ranking.hits] == ["a", "b", "c"]


async def test_what_was_dropped_is_still_seen_with_its_score() -> None:
    scorer = CountingScorer({"a": -5.0, "b": 5.0})
    ranking = await rerank("q", [hit("a"), hit("b")], RerankPlan(min_score=0.2), scorer)
    assert [h.id for h in ranking.hits] == ["b"]
    assert [(h.id, h.stamp.logit if h.stamp else None) for h in ranking.seen] == [
        ("a", -5.0),
        ("b", 5.0),
    ]


async def test_a_model_that_changes_has_the_older_scores_made_again_outside_the_window_too() -> (
    None
):
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    old = await stamp_hits("q", [hit("b", 0.1)], None, scorer)
    scorer.model = "fake@2"
    ranking = await rerank(
        "q", [hit("a", 0.4), *old.hits], RerankPlan(top_n=1), scorer, model=old.model
    )
    assert scorer.asked == ["b", "a", "b"]
    assert [(h.id, h.stamp.model if h.stamp else None) for h in ranking.hits] == [
        ("b", "fake@2"),
        ("a", "fake@2"),
    ]
    assert ranking.tally == Tally(passes=2)


async def test_a_stamp_that_does_not_count_leaves_its_hit_unscored_among_the_rest() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 9.0})
    (other,) = (await stamp_hits("another query", [hit("b", 0.1)], None, scorer)).hits
    ranking = await rerank("q", [hit("a", 0.4), other], RerankPlan(top_n=1), scorer)
    assert [(h.id, h.stamp is not None) for h in ranking.hits] == [("a", True), ("b", False)]


async def test_reranking_stops_at_nothing_if_only_some_hits_carry_the_guard() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    once = await rerank("q", [hit("a")], RerankPlan(), scorer)
    ranking = await rerank("q", [*once.hits, hit("b")], RerankPlan(), scorer, model=once.model)
    assert ([h.id for h in ranking.hits], scorer.passes) == (["b", "a"], 2)


async def test_no_hits_are_reranked_without_a_pass() -> None:
    scorer = CountingScorer({})
    ranking = await rerank("q", [], RerankPlan(), scorer)
    assert (ranking.hits, ranking.applied, scorer.passes) == ((), True, 0)


async def test_a_min_score_is_not_applied_to_a_model_on_another_scale() -> None:
    hits = [hit("a"), hit("b")]
    plan = RerankPlan(min_score=0.9, other_scales=frozenset({"stand-in@1"}))
    for model, kept in (("fake@1", []), ("stand-in@1", ["a", "b"])):
        scorer = CountingScorer({"a": 1.0, "b": 0.0}, model=model)
        result = await rerank("q", hits, plan, scorer)
        assert [one.id for one in result.hits] == kept
