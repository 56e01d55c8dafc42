from __future__ import annotations

import itertools

from pipeline.documents import Chunk
from pipeline.fusion import fuse
from pipeline.legs import LegHit, LegResult
from tests.fakes import chunk


def leg(name: str, *ids: str, variant: int = 0) -> LegResult:
    hits = tuple(LegHit(chunk(identity), 1.0 - n / 10) for n, identity in enumerate(ids))
    return LegResult(name, variant, 10, hits)


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


def test_an_id_repeated_in_a_leg_counts_once_at_its_best_rank() -> None:
    fused = fuse([leg("dense", "a", "b", "a")])
    assert [(hit.id, hit.fusion_score) for hit in fused] == [("a", 1 / 61), ("b", 1 / 62)]


def test_weights_multiply_a_legs_contribution() -> None:
    fused = fuse([leg("dense", "a"), leg("bm25", "b")], weights={"bm25": 2.0})
    assert [hit.id for hit in fused] == ["b", "a"]
    assert fused[0].fusion_score == 2 / 61


def test_ties_fall_by_best_rank_then_id_in_whatever_order_the_legs_come() -> None:
    for legs in itertools.permutations([leg("x", "c"), leg("y", "a"), leg("z", "b", "d")]):
        assert [hit.id for hit in fuse(legs)] == ["a", "b", "c", "d"]


def test_empty_legs_fuse_to_nothing_and_one_hit_stays_finite() -> None:
    assert fuse([leg("dense"), leg("bm25")]) == ()
    assert fuse([leg("dense", "a"), leg("bm25")])[0].fusion_score == 1 / 61


def test_the_retrieval_score_is_the_raw_score_of_the_leg_that_ranks_it_best() -> None:
    fused = fuse([leg("dense", "x", "a"), leg("bm25", "a", "x")])
    by_id = {hit.id: hit for hit in fused}
    assert by_id["a"].retrieval_score == 1.0
    assert {e.leg: e.score for e in by_id["a"].legs} == {"dense": 0.9, "bm25": 1.0}


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
