from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pipeline.chain import Ports, SearchPlan, search
from pipeline.corrective import CorrectionPlan
from pipeline.reranking import RerankPlan
from tests.fakes import CountingScorer, FakeLegs

NAMES = [f"n{n}" for n in range(12)]
rankings = st.lists(st.sampled_from(NAMES), max_size=12)
logits = st.dictionaries(st.sampled_from(NAMES), st.floats(-12, 12), max_size=12)


@given(
    rankings,
    rankings,
    logits,
    st.booleans(),
    st.booleans(),
    st.integers(1, 12),
    st.none() | st.integers(1, 12),
)
def test_no_hit_is_lost_doubled_or_scored_twice_whatever_is_switched_on(
    dense: list[str],
    bm25: list[str],
    scores: dict[str, float],
    correction: bool,
    reranking: bool,
    top_k: int,
    top_n: int | None,
) -> None:
    plan = SearchPlan(
        "q",
        top_k,
        top_k,
        correction=CorrectionPlan() if correction else None,
        rerank=RerankPlan(top_n) if reranking else None,
    )

    def run() -> tuple[list[str], list[str], list[str]]:
        scorer = CountingScorer(scores)
        result = asyncio.run(
            search(plan, Ports(FakeLegs(dense=dense, bm25=bm25).retrieve, score=scorer))
        )
        return [h.id for h in result.hits], [h.id for h in result.candidates], scorer.asked

    returned, candidates, asked = run()
    assert len(set(returned)) == len(returned)
    assert len(set(candidates)) == len(candidates)
    assert set(returned) <= set(candidates) <= set(dense) | set(bm25)
    assert len(set(asked)) == len(asked)
    if not correction:
        assert set(returned) == set(candidates)
    assert run() == (returned, candidates, asked)
