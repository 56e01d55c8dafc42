from __future__ import annotations

import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pipeline.fusion import FUSIONS, FusionPlan, fuse
from pipeline.legs import LegHit, LegResult
from tests.fakes import chunk

LEGS = ("dense", "bm25", "sparse")
VARIANTS = range(3)

weights = st.floats(0, 1000)
plans = st.builds(
    FusionPlan,
    st.sampled_from(list(FUSIONS)),
    st.floats(1e-3, 1e6),
    st.dictionaries(st.sampled_from(LEGS), weights),
    st.dictionaries(st.sampled_from(VARIANTS), weights),
)
# Any score at all: no engine is trusted to answer with numbers only, or in order.
leg_hits = st.builds(LegHit, st.sampled_from("abcdefgh").map(chunk), st.floats())
results = st.lists(
    st.builds(
        LegResult,
        st.sampled_from(LEGS),
        st.sampled_from(VARIANTS),
        st.just(10),
        st.lists(leg_hits, max_size=10).map(tuple),
        st.sampled_from([None, None, None, "boom"]),
    ),
    unique_by=lambda result: (result.leg, result.variant),
)


@given(results, plans)
def test_no_hit_is_lost_or_doubled(answers: list[LegResult], plan: FusionPlan) -> None:
    ids = [hit.id for hit in fuse(answers, plan)]
    answered = [result for result in answers if result.error is None]
    assert sorted(ids) == sorted({hit.chunk.id for result in answered for hit in result.hits})


@given(results, plans)
def test_a_hit_has_one_entry_of_each_list_that_has_it(
    answers: list[LegResult], plan: FusionPlan
) -> None:
    entries = sorted((h.id, e.leg, e.variant) for h in fuse(answers, plan) for e in h.legs)
    answered = [result for result in answers if result.error is None]
    assert entries == sorted(
        {(hit.chunk.id, result.leg, result.variant) for result in answered for hit in result.hits}
    )


@given(results, plans, st.randoms(use_true_random=False))
def test_the_order_of_the_results_changes_nothing(
    answers: list[LegResult], plan: FusionPlan, random: Random
) -> None:
    shuffled = list(answers)
    random.shuffle(shuffled)
    assert fuse(shuffled, plan) == fuse(answers, plan)


@given(results, plans)
def test_every_number_is_finite_and_scores_fall(answers: list[LegResult], plan: FusionPlan) -> None:
    hits = fuse(answers, plan)
    entries = [entry for hit in hits for entry in hit.legs]
    assert all(math.isfinite(e.contribution) and e.contribution >= 0 for e in entries)
    assert all(e.score is None or math.isfinite(e.score) for e in entries)
    scores = [hit.fusion_score for hit in hits if hit.fusion_score is not None]
    assert len(scores) == len(hits)
    assert all(math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)


@given(results, plans)
def test_the_contributions_make_the_fusion_score(
    answers: list[LegResult], plan: FusionPlan
) -> None:
    for hit in fuse(answers, plan):
        assert hit.fusion_score == math.fsum(entry.contribution for entry in hit.legs)


@given(results, st.dictionaries(st.sampled_from(LEGS), weights))
def test_no_convex_score_exceeds_one(
    answers: list[LegResult], leg_weights: dict[str, float]
) -> None:
    hits = fuse(answers, FusionPlan("convex", leg_weights=leg_weights))
    assert all((hit.fusion_score or 0.0) <= 1.0 + 1e-12 for hit in hits)
