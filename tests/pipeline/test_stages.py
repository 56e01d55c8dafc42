from __future__ import annotations

from dataclasses import replace

from pipeline.corrective import Correction
from pipeline.errors import OnepassError, Unavailable
from pipeline.hits import Hit
from pipeline.recall import Recalled
from pipeline.refinement import Refinement
from pipeline.reranking import Reranking
from pipeline.scoring import Tally
from pipeline.stages import Stages, degraded_parts, latest
from tests.fakes import hit

DOWN = Unavailable("down")


def stages(
    *hits: Hit,
    failed_legs: tuple[str, ...] = (),
    expansion_failures: tuple[str, ...] = (),
    corrected: OnepassError | None = None,
    deeper_failed: tuple[str, ...] = (),
    fallback: OnepassError | None = None,
    reranked: OnepassError | None = None,
    refined: OnepassError | None = None,
) -> Stages:
    return Stages(
        Recalled(hits, True, failed_legs, "q", (), expansion_failures=expansion_failures),
        Correction(
            hits,
            hits,
            "off",
            tally=Tally(passes=2, tokens=20),
            failure=corrected,
            failed_legs=deeper_failed,
            fallback_failure=fallback,
        ),
        Reranking(hits, True, Tally(passes=1, reused=2), None, reranked),
        hits,
        Refinement(hits, Tally(passes=4, cached=1, shared=1, tokens=9), refined, ()),
        None,
    )


def test_nothing_is_named_where_nothing_failed() -> None:
    assert degraded_parts(stages()) == ()


def test_every_part_that_failed_is_named_in_the_order_of_the_chain() -> None:
    everything = stages(
        failed_legs=("dense",),
        expansion_failures=("hyde: down", "step_back: down"),
        corrected=DOWN,
        deeper_failed=("bm25",),
        fallback=DOWN,
        reranked=DOWN,
        refined=DOWN,
    )
    assert degraded_parts(everything) == (
        "expansion",
        "leg:dense",
        "leg:bm25",
        "correct",
        "fallback",
        "rerank",
        "refine",
    )


def test_a_leg_that_fails_at_first_and_again_deeper_is_named_once() -> None:
    assert degraded_parts(stages(failed_legs=("dense",), deeper_failed=("dense", "dense"))) == (
        "leg:dense",
    )


def test_the_tally_sums_what_every_stage_cost() -> None:
    assert stages().tally == Tally(passes=7, reused=2, cached=1, shared=1, tokens=29)


def test_a_candidate_is_told_once_as_the_last_stage_that_had_it_left_it() -> None:
    a, b, c = hit("a"), hit("b"), hit("c")
    dropped, sorted_out, returned = (replace(one, rank=n) for n, one in ((7, b), (8, c), (1, a)))
    told = Stages(
        Recalled((a, b, c), True, (), "q", ()),
        Correction((a, c), (a, dropped, c), "correct"),
        Reranking((a,), True, Tally(), None, seen=(a, sorted_out)),
        (a,),
        Refinement((returned,), Tally(), None, ()),
        None,
    )
    assert latest(told) == (returned, dropped, sorted_out)


def test_one_id_of_two_origins_is_two_candidates() -> None:
    a = hit("a")
    assert len(latest(stages(a, replace(a, origin="http")))) == 2
