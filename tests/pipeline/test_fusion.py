from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from pipeline.documents import Chunk
from pipeline.fusion import FUSIONS, FusionPlan, Method, fuse
from pipeline.hits import Hit
from pipeline.legs import LegHit, LegResult
from tests.fakes import chunk

METHODS = list(FUSIONS)


def leg(name: str, *ids: str, variant: int = 0) -> LegResult:
    hits = tuple(LegHit(chunk(identity), 1.0 - n / 10) for n, identity in enumerate(ids))
    return LegResult(name, variant, 10, hits)


def scored(name: str, **scores: float) -> LegResult:
    hits = tuple(LegHit(chunk(identity), score) for identity, score in scores.items())
    return LegResult(name, 0, 10, hits)


def failed(name: str) -> LegResult:
    return LegResult(name, 0, 10, error="boom")


def fusion_scores(*results: LegResult, method: Method) -> dict[str, float | None]:
    return {hit.id: hit.fusion_score for hit in fuse(results, FusionPlan(method))}


def order(hits: tuple[Hit, ...]) -> list[str]:
    return [hit.id for hit in hits]


# Merging.


def test_a_hit_in_both_legs_beats_hits_at_the_top_of_one() -> None:
    fused = fuse([leg("dense", "X", "a", "Y"), leg("bm25", "b", "c", "Y")])
    assert fused[0].id == "Y"
    assert fused[0].fusion_score == 1 / 63 + 1 / 63


def test_the_same_chunk_in_two_legs_is_one_hit_with_both_legs() -> None:
    (hit,) = fuse([leg("dense", "a"), leg("bm25", "a")])
    assert [(e.leg, e.rank, e.contribution) for e in hit.legs] == [
        ("dense", 1, 1 / 61),
        ("bm25", 1, 1 / 61),
    ]


def test_the_same_chunk_for_several_variants_is_one_hit_with_an_entry_of_each() -> None:
    results = [
        leg("bm25", "b", "a", variant=2),
        leg("dense", "a", variant=1),
        leg("bm25", "a"),
        leg("dense", "b", "a"),
    ]
    hit = fuse(results)[0]
    assert hit.id == "a"
    assert [(e.variant, e.leg, e.rank) for e in hit.legs] == [
        (0, "dense", 2),
        (0, "bm25", 1),
        (1, "dense", 1),
        (2, "bm25", 2),
    ]


def test_a_chunk_that_its_legs_describe_differently_is_still_one_hit() -> None:
    one = LegHit(Chunk("a", "guide", 3, "text", metadata={"via": "vector"}), 0.9)
    other = LegHit(Chunk("a", "guide", 3, "text", title="Guide"), 12.0)
    (hit,) = fuse([LegResult("dense", 0, 1, (one,)), LegResult("bm25", 0, 1, (other,))])
    assert [e.leg for e in hit.legs] == ["dense", "bm25"]


def test_chunks_of_one_document_stay_apart() -> None:
    chunks = [Chunk("guide#0", "guide", 0, "same"), Chunk("guide#1", "guide", 0, "same")]
    nameless = [Chunk("", "guide", 0, "same"), Chunk("", "guide", 1, "same")]
    hits = tuple(LegHit(each, 1.0) for each in [*chunks, *nameless])
    assert [(h.id, h.chunk_index) for h in fuse([LegResult("dense", 0, 4, hits)])] == [
        ("guide#0", 0),
        ("guide#1", 0),
        ("", 0),
        ("", 1),
    ]


@pytest.mark.parametrize("method", METHODS)
def test_an_id_repeated_in_a_list_counts_once_at_its_best_rank(method: Method) -> None:
    once = fuse([scored("dense", a=0.9, b=0.5)], FusionPlan(method))
    hits = tuple(LegHit(chunk(name), score) for name, score in [("a", 0.9), ("b", 0.5), ("a", 0.1)])
    assert fuse([LegResult("dense", 0, 10, hits)], FusionPlan(method)) == once


def test_raw_scores_are_kept_apart() -> None:
    fused = fuse([scored("dense", a=0.61), scored("bm25", b=14.5, a=12.25)], FusionPlan("rsf"))
    by_id = {hit.id: hit for hit in fused}
    assert {e.leg: e.score for e in by_id["a"].legs} == {"dense": 0.61, "bm25": 12.25}
    assert {e.leg: e.contribution for e in by_id["a"].legs} == {"dense": 1.0, "bm25": 0.0}


@pytest.mark.parametrize("method", METHODS)
def test_a_leg_of_large_raw_scores_does_not_outvote_the_other(method: Method) -> None:
    small = fuse([leg("dense", "a", "b"), scored("bm25", b=3.0, c=2.0)], FusionPlan(method))
    large = fuse([leg("dense", "a", "b"), scored("bm25", b=3e6, c=2e6)], FusionPlan(method))
    assert [h.fusion_score for h in large] == pytest.approx([h.fusion_score for h in small])
    assert order(large) == order(small)


def test_the_retrieval_score_is_the_raw_score_of_the_leg_that_ranks_it_best() -> None:
    fused = fuse([leg("dense", "x", "a"), leg("bm25", "a", "x")])
    by_id = {hit.id: hit for hit in fused}
    assert by_id["a"].retrieval_score == 1.0
    assert {e.leg: e.score for e in by_id["a"].legs} == {"dense": 0.9, "bm25": 1.0}


def test_of_equal_ranks_the_query_itself_and_then_dense_give_the_retrieval_score() -> None:
    results = [
        replace(scored("dense", a=0.7), variant=1),
        scored("bm25", a=9.0),
        scored("dense", a=0.8),
    ]
    assert [fuse(legs)[0].retrieval_score for legs in itertools.permutations(results)] == [0.8] * 6
    assert fuse(results[:2])[0].retrieval_score == 9.0


def test_reserved_keys_planted_in_the_index_do_not_enter_the_chain() -> None:
    planted = Chunk(
        "a",
        "a",
        0,
        "text",
        metadata={"_crossEncoderScore": {"logit": 99}, "_reranked": "x", "_tracked": "y", "k": 1},
    )
    (hit,) = fuse([LegResult("dense", 0, 1, (LegHit(planted, 1.0),))])
    assert hit.metadata == {"k": 1}


# The formulas.


def test_rrf_adds_the_reciprocal_of_k_and_the_rank() -> None:
    assert fusion_scores(leg("dense", "a", "b"), leg("bm25", "b"), method="rrf") == {
        "b": 1 / 62 + 1 / 61,
        "a": 1 / 61,
    }
    (hit,) = fuse([leg("dense", "a")], FusionPlan(k=1.0))
    assert hit.fusion_score == 0.5


def test_rsf_places_scores_between_the_lowest_and_the_highest_of_their_list() -> None:
    bm25 = scored("bm25", a=11.0, b=8.0, c=6.0, d=1.0)
    assert fusion_scores(bm25, method="rsf") == {"a": 1.0, "b": 0.7, "c": 0.5, "d": 0.0}
    dense = scored("dense", d=0.75, a=0.5, e=0.25)
    assert fusion_scores(bm25, dense, method="rsf") == {
        "a": 1.5,
        "d": 1.0,
        "b": 0.7,
        "c": 0.5,
        "e": 0.0,
    }


def test_dbsf_places_scores_between_three_deviations_below_and_above_the_mean() -> None:
    # Mean 6, sample deviation 2: the limits are 0 and 12.
    assert fusion_scores(scored("bm25", a=8.0, b=6.0, c=4.0), method="dbsf") == {
        "a": pytest.approx(8 / 12),
        "b": 0.5,
        "c": pytest.approx(4 / 12),
    }


def test_dbsf_clips_an_outlier_to_the_limit() -> None:
    rest = {f"n{number:02}": 0.0 for number in range(20)}
    fused = fusion_scores(scored("bm25", a=100.0, **rest), method="dbsf")
    assert fused["a"] == 1.0
    assert 0.0 < (fused["n00"] or 0.0) < 0.5


def test_convex_places_scores_between_the_least_possible_and_the_best_of_their_list() -> None:
    dense = scored("dense", a=1.0, b=0.5, c=-1.0)
    bm25 = scored("bm25", b=8.0, c=2.0)
    assert fusion_scores(dense, method="convex") == {"a": 1.0, "b": 0.75, "c": 0.0}
    assert fusion_scores(bm25, method="convex") == {"b": 1.0, "c": 0.25}
    assert fusion_scores(dense, bm25, method="convex") == {"b": 0.875, "a": 0.5, "c": 0.125}


def test_convex_takes_a_score_below_the_least_possible_for_the_least() -> None:
    assert fusion_scores(scored("bm25", a=4.0, b=-2.0), method="convex") == {"a": 1.0, "b": 0.0}
    assert fusion_scores(scored("bm25", a=-1.0, b=-2.0), method="convex") == {"a": 0.0, "b": 0.0}


# Where formulas end.


@pytest.mark.parametrize(
    ("method", "value"), [("rrf", 1 / 61), ("rsf", 1.0), ("dbsf", 0.5), ("convex", 1.0)]
)
def test_one_hit_has_a_value_of_its_own(method: Method, value: float) -> None:
    assert fusion_scores(scored("dense", a=0.42), method=method) == {"a": value}
    assert fusion_scores(scored("bm25", a=7.5), method=method) == {"a": value}


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("rrf", (1 / 61, 1 / 62, 1 / 63)),
        ("rsf", (1.0, 1.0, 1.0)),
        ("dbsf", (0.5, 0.5, 0.5)),
        ("convex", (1.0, 1.0, 1.0)),
    ],
)
def test_equal_scores_have_a_value_of_their_own(method: Method, values: tuple[float, ...]) -> None:
    fused = fuse([scored("bm25", b=0.3, a=0.3, c=0.3)], FusionPlan(method))
    assert [(hit.id, hit.fusion_score) for hit in fused] == list(zip("bac", values, strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_scores_of_zero_stay_finite_and_keep_their_order(method: Method) -> None:
    fused = fuse([scored("bm25", b=0.0, a=0.0)], FusionPlan(method))
    assert order(fused) == ["b", "a"]
    assert all(hit.fusion_score is not None and 0 <= hit.fusion_score <= 1 for hit in fused)


@pytest.mark.parametrize("method", METHODS)
def test_a_score_that_is_no_number_counts_as_the_lowest_and_is_none(method: Method) -> None:
    fused = fuse([scored("bm25", a=4.0, b=2.0, c=float("nan"))], FusionPlan(method))
    like = fuse([scored("bm25", a=4.0, b=2.0, c=2.0)], FusionPlan(method))
    assert [h.fusion_score for h in fused] == [h.fusion_score for h in like]
    assert [h.retrieval_score for h in fused] == [4.0, 2.0, None]
    assert [h.legs[0].score for h in fused] == [4.0, 2.0, None]


@pytest.mark.parametrize("method", METHODS)
def test_a_leg_without_hits_brings_none_and_changes_no_order(method: Method) -> None:
    assert fuse([leg("dense"), leg("bm25")], FusionPlan(method)) == ()
    assert fuse([], FusionPlan(method)) == ()
    dense = scored("dense", a=0.95, b=0.91)
    assert order(fuse([dense, leg("bm25")], FusionPlan(method))) == ["a", "b"]


@pytest.mark.parametrize("method", METHODS)
def test_a_failed_leg_counts_for_nothing(method: Method) -> None:
    dense = scored("dense", a=0.95, b=0.91)
    assert fuse([dense, failed("bm25")], FusionPlan(method)) == fuse([dense], FusionPlan(method))
    assert fuse([failed("dense"), failed("bm25")], FusionPlan(method)) == ()


def test_an_empty_leg_takes_its_share_of_the_convex_weights_and_a_failed_one_none() -> None:
    dense = scored("dense", a=0.5)
    assert fusion_scores(dense, leg("bm25"), method="convex") == {"a": 0.5}
    assert fusion_scores(dense, failed("bm25"), method="convex") == {"a": 1.0}


# Weights.


def test_weights_multiply_a_legs_contribution() -> None:
    plan = FusionPlan(leg_weights={"bm25": 2.0})
    fused = fuse([leg("dense", "a"), leg("bm25", "b")], plan)
    assert order(fused) == ["b", "a"]
    assert fused[0].fusion_score == 2 / 61


def test_a_variants_weight_multiplies_its_legs() -> None:
    plan = FusionPlan("rsf", leg_weights={"bm25": 2.0}, variant_weights={1: 0.25})
    fused = fuse([leg("bm25", "a"), leg("bm25", "b", variant=1), leg("dense", "c")], plan)
    assert [(h.id, h.fusion_score) for h in fused] == [("a", 2.0), ("c", 1.0), ("b", 0.5)]


def test_convex_weights_are_scaled_to_a_sum_of_one() -> None:
    plan = FusionPlan("convex", leg_weights={"dense": 6.0, "bm25": 2.0})
    fused = fuse([scored("dense", a=0.5), scored("bm25", b=3.0, a=3.0)], plan)
    assert [(h.id, h.fusion_score) for h in fused] == [("a", 1.0), ("b", 0.25)]


@pytest.mark.parametrize("method", METHODS)
def test_a_leg_of_weight_zero_brings_hits_and_adds_nothing(method: Method) -> None:
    plan = FusionPlan(method, leg_weights={"bm25": 0.0})
    dense = leg("dense", "a", "b")
    fused = fuse([dense, leg("bm25", "c", "b")], plan)
    assert {h.id: h.fusion_score for h in fused} == fusion_scores(dense, method=method) | {"c": 0.0}
    assert [e.contribution for hit in fused for e in hit.legs if e.leg == "bm25"] == [0.0, 0.0]


@pytest.mark.parametrize("method", METHODS)
def test_under_weights_of_zero_alone_hits_fall_by_best_rank_then_id(method: Method) -> None:
    plan = FusionPlan(method, leg_weights={"dense": 0.0}, variant_weights={1: 0.0})
    fused = fuse([leg("dense", "d", "b"), leg("bm25", "c", "a", variant=1)], plan)
    assert [(h.id, h.fusion_score) for h in fused] == [("c", 0), ("d", 0), ("a", 0), ("b", 0)]


# Ties.


def test_ties_fall_by_best_rank_then_id_in_whatever_order_the_legs_come() -> None:
    for legs in itertools.permutations([leg("x", "c"), leg("y", "a"), leg("z", "b", "d")]):
        assert order(fuse(legs)) == ["a", "b", "c", "d"]


def test_ties_fall_the_same_way_on_twenty_runs() -> None:
    results = [leg("dense", "c", variant=n) for n in range(3)]
    results += [leg("bm25", "b"), leg("bm25", "a", variant=1), leg("bm25", "d", variant=2)]
    for run in range(20):
        random.Random(run).shuffle(results)
        assert order(fuse(results)) == ["c", "a", "b", "d"]


def test_hits_with_the_same_contributions_tie_however_these_are_ordered() -> None:
    # From left to right, 1/61 + 1/67 + 1/62 makes more than 1/62 + 1/61 + 1/67.
    results = [
        leg("dense", "b", "a"),
        leg("dense", "a", *"uvwxy", "b", variant=1),
        leg("dense", "u", "b", *"vwxy", "a", variant=2),
    ]
    first, second = (hit for hit in fuse(results) if hit.id in ("a", "b"))
    assert (first.id, second.id) == ("a", "b")
    assert first.fusion_score == second.fusion_score
