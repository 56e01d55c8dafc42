from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.errors import DeadlineExceeded, Overloaded
from pipeline.scoring import PairScore, ScoreAnswer, Tally, stamp_hits
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


async def test_a_pair_that_another_hit_has_a_stamp_for_is_not_scored_again() -> None:
    scorer = CountingScorer({"a": 1.0})
    first = await stamp_hits("q", [hit("a")], None, scorer)
    twin = replace(hit("a"), id="twin")
    both = await stamp_hits("q", [*first.hits, twin], first.model, scorer)
    assert (scorer.asked, both.tally) == (["a"], Tally(reused=2))
    assert [h.stamp for h in both.hits] == [first.hits[0].stamp] * 2


async def test_what_a_newer_model_scores_again_is_not_counted_as_reused() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 2.0})
    old = await stamp_hits("q", [hit("a")], None, scorer)
    scorer.model = "fake@2"
    both = await stamp_hits("q", [*old.hits, hit("b")], old.model, scorer)
    assert both.tally == Tally(passes=2)


async def test_a_model_that_changes_twice_leaves_no_mixture_and_is_named() -> None:
    old = await stamp_hits("q", [hit("a")], None, CountingScorer({"a": 1.0}))
    scorer = CountingScorer({"a": 1.0, "b": 2.0}, "fake@2", "fake@3")
    both = await stamp_hits("q", [*old.hits, hit("b")], old.model, scorer)
    assert [h.stamp.model if h.stamp else None for h in both.hits] == ["fake@3", None]
    assert (both.model, scorer.asked) == ("fake@3", ["b", "a"])
    assert str(both.failure) == "the scorer's model changed twice during the request"


async def test_a_pair_that_was_too_late_is_a_missed_deadline() -> None:
    async def slow(query: str, pairs: object) -> ScoreAnswer:
        late = PairScore(None, None, reason="not scored in time", late=True)
        return ScoreAnswer("fake@1", (PairScore(1.0, 0.75), late), Tally(passes=1))

    stamped = await stamp_hits("q", [hit("a"), hit("b")], None, slow)
    assert isinstance(stamped.failure, DeadlineExceeded)
    assert [h.stamp is not None for h in stamped.hits] == [True, False]


async def test_an_overloaded_scorer_is_not_taken_for_a_failed_one() -> None:
    async def full(query: str, pairs: object) -> ScoreAnswer:
        raise Overloaded("full", None, 1)

    with pytest.raises(Overloaded):
        await stamp_hits("q", [hit("a")], None, full)


async def test_how_a_score_was_come_by_stays_in_its_stamp() -> None:
    async def cached(query: str, pairs: object) -> ScoreAnswer:
        scores = (PairScore(1.0, 0.75, came_by="cache"), PairScore(2.0, 0.8, came_by="shared"))
        return ScoreAnswer("fake@1", scores, Tally(cached=1, shared=1))

    stamped = await stamp_hits("q", [hit("a"), hit("b")], None, cached)
    assert [h.stamp.came_by for h in stamped.hits if h.stamp] == ["cache", "shared"]
    assert stamped.tally == Tally(cached=1, shared=1)


def test_a_pairs_digest_depends_on_where_the_query_ends() -> None:
    assert pair_digest("ab", "c") != pair_digest("a", "bc")
    assert len(pair_digest("a", "b")) == 32
