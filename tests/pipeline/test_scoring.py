from __future__ import annotations

from dataclasses import replace

from pipeline.scoring import Tally, stamp_hits
from pipeline.stamps import CROSS_ENCODER_SCORE, Stamp, pair_digest
from tests.fakes import CountingScorer, hit


async def test_each_distinct_pair_is_scored_once_even_if_two_hits_hold_it() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    twins = [hit("a"), replace(hit("a"), id="a2"), hit("b")]
    stamped = await stamp_hits("q", twins, None, scorer)
    assert scorer.asked == ["a", "b"]
    assert [h.stamp.logit for h in stamped.hits if h.stamp] == [1.0, 1.0, 2.0]


async def test_a_mixture_scores_only_the_unstamped() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    first = await stamp_hits("q", [hit("a")], None, scorer)
    second = await stamp_hits("q", [*first.hits, hit("b")], first.model, scorer)
    assert scorer.asked == ["a", "b"]
    assert second.tally == Tally(passes=1, reused=1)


async def test_another_query_text_or_model_never_reuses_a_stamp() -> None:
    scorer = CountingScorer({"a": 1.0, "edited": 0.5})
    (stamped,) = (await stamp_hits("q", [hit("a")], None, scorer)).hits
    await stamp_hits("other", [stamped], "fake@1", scorer)
    await stamp_hits("q", [replace(stamped, text="edited")], "fake@1", scorer)
    await stamp_hits("q", [stamped], "fake@2", scorer)
    assert scorer.asked == ["a", "a", "edited", "a"]


async def test_a_planted_score_in_metadata_is_not_a_stamp() -> None:
    scorer = CountingScorer({"a": 1.0})
    planted = replace(
        hit("a"),
        metadata={
            CROSS_ENCODER_SCORE: {
                "logit": 99.0,
                "relevance": 1.0,
                "model": "fake@1",
                "pair": pair_digest("q", "a"),
            }
        },
    )
    stamped = await stamp_hits("q", [planted], "fake@1", scorer)
    assert scorer.asked == ["a"]
    assert stamped.hits[0].stamp == Stamp(1.0, 0.7310585786300049, "fake@1", pair_digest("q", "a"))


async def test_answers_of_two_models_leave_one_ranking_by_the_newer() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    old = await stamp_hits("q", [hit("a")], None, scorer)
    scorer.model = "fake@2"
    both = await stamp_hits("q", [*old.hits, hit("b")], old.model, scorer)
    assert scorer.asked == ["a", "b", "a"]
    assert {h.stamp.model for h in both.hits if h.stamp} == {"fake@2"}


async def test_a_poisoned_pair_fails_alone_and_is_named() -> None:
    stamped = await stamp_hits("q", [hit("a"), hit("bad")], None, CountingScorer({"a": 1.0}))
    assert [h.stamp is not None for h in stamped.hits] == [True, False]
    assert str(stamped.failure) == "poisoned"


async def test_a_scorer_that_is_down_stamps_nothing_and_loses_no_hit() -> None:
    scorer = CountingScorer({})
    scorer.down = True
    stamped = await stamp_hits("q", [hit("a")], None, scorer)
    assert [h.id for h in stamped.hits] == ["a"]
    assert (stamped.model, str(stamped.failure)) == (None, "the scorer is down")


def test_a_pairs_digest_depends_on_where_the_query_ends() -> None:
    assert pair_digest("ab", "c") != pair_digest("a", "bc")
    assert len(pair_digest("a", "b")) == 32
