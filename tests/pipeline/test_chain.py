from __future__ import annotations

import pytest

from pipeline.chain import Ports, SearchPlan, search
from pipeline.corrective import CorrectionPlan
from pipeline.errors import Unavailable
from pipeline.hits import effective_score
from pipeline.reranking import RerankPlan
from tests.fakes import CountingScorer, FakeLegs

IDS = [f"d{n}" for n in range(6)]
LOGITS = {"d0": -6.0, "d1": 1.0, "d2": 5.0, "d3": -7.0, "d4": 0.0, "d5": 2.0}
BOTH = SearchPlan("q", 6, 3, correction=CorrectionPlan(), rerank=RerankPlan())


def legs() -> FakeLegs:
    return FakeLegs(dense=IDS, bm25=IDS[:2])


async def test_correction_and_reranking_share_one_pass_a_pair() -> None:
    scorer = CountingScorer(LOGITS)
    result = await search(BOTH, Ports(legs().retrieve, score=scorer))
    assert [hit.id for hit in result.hits] == ["d2", "d5", "d1"]
    assert [hit.rank for hit in result.hits] == [1, 2, 3]
    assert sorted(scorer.asked) == IDS
    assert (result.tally.passes, result.tally.reused) == (6, 4)
    assert (result.verdict, result.rerank_applied) == ("correct", True)


async def test_correction_alone_sorts_survivors_by_logit() -> None:
    plan = SearchPlan("q", 6, 6, correction=CorrectionPlan())
    result = await search(plan, Ports(legs().retrieve, score=CountingScorer(LOGITS)))
    assert [hit.id for hit in result.hits] == ["d2", "d5", "d1", "d4"]
    assert not result.rerank_applied


async def test_reranking_alone_sorts_and_drops_nothing() -> None:
    plan = SearchPlan("q", 6, 6, rerank=RerankPlan())
    result = await search(plan, Ports(legs().retrieve, score=CountingScorer(LOGITS)))
    assert [hit.id for hit in result.hits] == ["d2", "d5", "d1", "d4", "d0", "d3"]
    assert (result.verdict, result.rerank_applied) == ("off", True)


async def test_neither_keeps_fused_order_and_needs_no_scorer() -> None:
    result = await search(SearchPlan("q", 6, 6), Ports(legs().retrieve, score=None))
    assert [hit.id for hit in result.hits] == IDS
    assert (result.verdict, result.rerank_applied, result.model) == ("off", False, None)
    assert effective_score(result.hits[0])[1] == "fusion"


async def test_what_was_dropped_is_still_among_the_candidates() -> None:
    result = await search(BOTH, Ports(legs().retrieve, score=CountingScorer(LOGITS)))
    assert {hit.id for hit in result.candidates} == set(IDS)
    assert {hit.id for hit in result.candidates if hit.rank is not None} == {"d1", "d2", "d5"}


async def test_trimming_comes_last_so_a_deep_best_hit_is_returned_first() -> None:
    ids = [f"x{n}" for n in range(8)] + ["best"]
    scorer = CountingScorer(dict.fromkeys(ids, -1.0) | {"best": 8.0})
    plan = SearchPlan("q", 9, 3, rerank=RerankPlan())
    result = await search(plan, Ports(FakeLegs(dense=ids).retrieve, score=scorer))
    assert result.hits[0].id == "best"


async def test_a_failed_leg_is_named_and_the_other_answers() -> None:
    retriever = legs()
    retriever.failing = {"dense"}
    result = await search(BOTH, Ports(retriever.retrieve, score=CountingScorer(LOGITS)))
    assert result.degraded == ("leg:dense",)
    assert [hit.id for hit in result.hits] == ["d1"]


async def test_all_legs_failing_is_an_error() -> None:
    retriever = legs()
    retriever.failing = {"dense", "bm25"}
    with pytest.raises(Unavailable, match="bm25: boom; dense: boom"):
        await search(BOTH, Ports(retriever.retrieve, score=CountingScorer(LOGITS)))


async def test_a_dead_scorer_leaves_retrieval_order_and_names_both_parts() -> None:
    scorer = CountingScorer(LOGITS)
    scorer.down = True
    result = await search(BOTH, Ports(legs().retrieve, score=scorer))
    assert [hit.id for hit in result.hits] == ["d0", "d1", "d2"]
    assert result.degraded == ("correct", "rerank")
    assert (result.verdict, result.rerank_applied) == (None, False)
    assert [hit.stamp for hit in result.hits] == [None, None, None]


async def test_closed_on_error_answers_unavailable_instead() -> None:
    scorer = CountingScorer(LOGITS)
    scorer.down = True
    plan = SearchPlan("q", 6, 3, rerank=RerankPlan(), on_error="closed")
    with pytest.raises(Unavailable, match="rerank"):
        await search(plan, Ports(legs().retrieve, score=scorer))


async def test_no_hits_is_a_verdict_and_costs_no_pass() -> None:
    scorer = CountingScorer({})
    result = await search(BOTH, Ports(FakeLegs(dense=[], bm25=[]).retrieve, score=scorer))
    assert (result.hits, result.verdict, scorer.passes) == ((), "no_hits", 0)


async def test_a_continuation_asks_every_leg_deeper_once() -> None:
    ids = [f"n{n:02d}" for n in range(30)]
    scorer = CountingScorer(dict.fromkeys(ids, -9.0))
    retriever = FakeLegs(dense=ids, bm25=ids)
    result = await search(
        SearchPlan("q", 5, 3, correction=CorrectionPlan()), Ports(retriever.retrieve, score=scorer)
    )
    assert retriever.depths == [5, 15]
    assert (result.corrections, scorer.passes) == (1, 15)
    assert len(set(scorer.asked)) == scorer.passes


async def test_a_corpus_smaller_than_asked_for_is_exhausted() -> None:
    retriever = FakeLegs(dense=["a", "b"], bm25=["a"])
    scorer = CountingScorer({"a": -9.0, "b": -9.0})
    result = await search(
        SearchPlan("q", 5, 3, correction=CorrectionPlan()), Ports(retriever.retrieve, score=scorer)
    )
    assert (retriever.depths, result.corrections) == ([5], 0)


async def test_scores_never_increase_down_the_list_within_a_kind() -> None:
    result = await search(BOTH, Ports(legs().retrieve, score=CountingScorer(LOGITS)))
    scores = [effective_score(hit) for hit in result.hits]
    assert {kind for _, kind in scores} == {"cross_encoder"}
    assert scores == sorted(scores, reverse=True)


async def test_the_trace_tells_each_hits_way() -> None:
    plan = SearchPlan(
        "q", 6, 2, correction=CorrectionPlan(), rerank=RerankPlan(), include_trace=True
    )
    result = await search(plan, Ports(legs().retrieve, score=CountingScorer(LOGITS)))
    assert result.trace is not None
    assert [hit["id"] for hit in result.trace["retrieved_hits"]] == IDS
    assert [hit["id"] for hit in result.trace["reranked_hits"]] == ["d2", "d5", "d1", "d4"]
    ways = {way["id"]: way for way in result.trace["hits"]}
    assert (ways["d3"]["grade"], ways["d3"]["outcome"]) == ("incorrect", "dropped by correction")
    assert (ways["d4"]["rerank_rank"], ways["d4"]["outcome"]) == (4, "trimmed")
    assert (ways["d2"]["score_from"], ways["d2"]["stamp_reused"]) == ("pass", True)
    assert (ways["d0"]["fused_rank"], ways["d2"]["outcome"]) == (1, "returned")
    assert (ways["d2"]["rerank_rank"], ways["d2"]["final_rank"]) == (1, 1)
    assert ways["d0"]["legs"] == ["dense/0@1", "bm25/0@1"]


@pytest.mark.parametrize(
    ("leg_k", "depths", "seen"), [(30, [30, 30], 15), (2, [2, 15], 15), (None, [5, 15], 15)]
)
async def test_a_leg_depth_of_its_own_does_not_change_how_far_correction_goes(
    leg_k: int | None, depths: list[int], seen: int
) -> None:
    ids = [f"n{n:02d}" for n in range(40)]
    retriever = FakeLegs(dense=ids)
    plan = SearchPlan("q", 5, 3, leg_k=leg_k, correction=CorrectionPlan())
    result = await search(
        plan, Ports(retriever.retrieve, score=CountingScorer(dict.fromkeys(ids, -9.0)))
    )
    assert (retriever.depths, len(result.candidates)) == (depths, seen)
