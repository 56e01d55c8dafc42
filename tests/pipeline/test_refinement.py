from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import DeadlineExceeded, Overloaded, Unavailable
from pipeline.hits import Hit
from pipeline.refinement import (
    RefinePlan,
    refine,
)
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally, stamp_hits
from pipeline.strips import Mode, Span, sentence_groups, sentences, windows
from tests.fakes import CountingScorer, hit

ABC = "A one. A two. A three. B one. B two. B three. C one. C two."
STRIP_A, STRIP_B, STRIP_C = "A one. A two. A three.", "B one. B two. B three.", "C one. C two."


def passage(identity: str, text: str, title: str | None = None) -> Hit:
    return replace(hit(identity), text=text, title=title)


def refined(hits: Sequence[Hit]) -> list[str | None]:
    return [hit.refined for hit in hits]


async def test_only_relevant_strips_stay_and_the_text_does_not_change() -> None:
    scorer = CountingScorer({STRIP_A: 2.0, STRIP_B: -2.0, STRIP_C: 1.0})
    result = await refine("q", [passage("a", ABC)], RefinePlan(), scorer, model="fake@1")
    assert refined(result.hits) == ["A one. A two. A three. C one. C two."]
    assert result.hits[0].text == ABC
    assert scorer.asked == [STRIP_A, STRIP_B, STRIP_C]
    assert (result.tally, result.failure) == (Tally(passes=3), None)


async def test_neighbours_are_joined_as_in_the_text_and_others_by_one_space() -> None:
    text = "Aa. Bb. Cc.\n\nDd. Ee. Ff.  Gg. Hh. Ii.\nJj."
    strips = ["Aa. Bb. Cc.", "Dd. Ee. Ff.", "Gg. Hh. Ii.", "Jj."]
    scorer = CountingScorer(dict(zip(strips, (1.0, 1.0, -1.0, 1.0), strict=True)))
    result = await refine("q", [passage("a", text)], RefinePlan(), scorer, model=None)
    assert refined(result.hits) == ["Aa. Bb. Cc.\n\nDd. Ee. Ff. Jj."]


async def test_a_strip_is_scored_with_its_title_which_is_no_part_of_what_is_refined() -> None:
    scorer = CountingScorer({f"T\n{STRIP_A}": 1.0, f"T\n{STRIP_B}": -1.0, f"T\n{STRIP_C}": -1.0})
    result = await refine("q", [passage("a", ABC, "T")], RefinePlan(), scorer, model=None)
    assert refined(result.hits) == [STRIP_A]


async def test_a_hit_without_a_relevant_strip_is_refined_to_nothing_and_stays() -> None:
    scorer = CountingScorer({"a": 1.0, "b": -1.0})
    hits = [hit("b"), hit("a")]
    result = await refine("q", hits, RefinePlan(), scorer, model=None)
    assert [(hit.id, hit.refined) for hit in result.hits] == [("b", ""), ("a", "a")]


async def test_the_best_strip_stays_even_if_it_is_not_relevant() -> None:
    scorer = CountingScorer({"a": -3.0, "b": -2.0})
    result = await refine("q", [hit("a"), hit("b")], RefinePlan(), scorer, model=None)
    assert refined(result.hits) == ["", "b"]


async def test_a_relevance_at_the_threshold_is_enough() -> None:
    scorer = CountingScorer({"a": 0.0, "b": 1.0})
    plan = RefinePlan(min_score=0.5)
    result = await refine("q", [hit("a"), hit("b")], plan, scorer, model=None)
    assert refined(result.hits) == ["a", "b"]


async def test_strips_are_limited_over_all_hits_and_ties_go_to_the_first() -> None:
    scorer = CountingScorer({STRIP_A: 1.0, STRIP_B: 1.0, STRIP_C: 2.0, "b": 1.0})
    plan = RefinePlan(max_strips=2)
    hits = [hit("b"), passage("a", ABC)]
    result = await refine("q", hits, plan, scorer, model=None)
    assert refined(result.hits) == ["b", STRIP_C]


@pytest.mark.parametrize(("mode", "kept"), [("passage", 3), ("sentences", 6), ("windows", 6)])
async def test_the_published_number_of_strips_is_the_default(mode: Mode, kept: int) -> None:
    names = "abcdefgh"
    scorer = CountingScorer(dict.fromkeys(names, 1.0))
    hits = [hit(name) for name in names]
    result = await refine("q", hits, RefinePlan(mode), scorer, model=None)
    assert refined(result.hits) == [*names[:kept], *([""] * (8 - kept))]


async def test_a_text_that_stays_whole_reuses_its_stamp_with_no_pass() -> None:
    scorer = CountingScorer({"T\nOne. ": 1.0, ABC: 3.0, STRIP_A: 1.0, STRIP_B: -1.0, STRIP_C: 0.5})
    hits = [passage("short", "One. ", "T"), passage("long", ABC)]
    stamped = await stamp_hits("q", hits, None, scorer)
    scorer.asked.clear()
    result = await refine("q", stamped.hits, RefinePlan(), scorer, model=stamped.model)
    assert scorer.asked == [STRIP_A, STRIP_B, STRIP_C]
    assert result.tally == Tally(passes=3, reused=1)
    assert refined(result.hits) == ["One. ", f"{STRIP_A} {STRIP_C}"]


async def test_where_every_text_stays_whole_the_scorer_is_not_asked() -> None:
    scorer = CountingScorer({"a": 1.0, "b": -1.0})
    stamped = await stamp_hits("q", [hit("a"), hit("b")], None, scorer)
    scorer.down = True
    plan = RefinePlan("passage")
    result = await refine("q", stamped.hits, plan, scorer, model="fake@1")
    assert (refined(result.hits), result.tally) == (["a", ""], Tally(reused=2))


async def test_a_stamp_of_another_query_is_not_reused() -> None:
    scorer = CountingScorer({"a": 1.0})
    stamped = await stamp_hits("other", [hit("a")], None, scorer)
    result = await refine("q", stamped.hits, RefinePlan(), scorer, model="fake@1")
    assert result.tally == Tally(passes=1)


async def test_a_strip_that_two_hits_hold_is_asked_once() -> None:
    scorer = CountingScorer({"a": 1.0})
    twins = [hit("a"), replace(hit("a"), id="a2")]
    result = await refine("q", twins, RefinePlan(), scorer, model=None)
    assert scorer.asked == ["a"]
    assert refined(result.hits) == ["a", "a"]


async def test_a_scorer_that_is_down_refines_nothing_and_loses_no_hit() -> None:
    scorer = CountingScorer({"a": 1.0})
    stamped = await stamp_hits("q", [hit("a")], None, scorer)
    scorer.down = True
    hits = [*stamped.hits, hit("b")]
    result = await refine("q", hits, RefinePlan(), scorer, model="fake@1")
    assert [(hit.id, hit.refined) for hit in result.hits] == [("a", None), ("b", None)]
    assert (str(result.failure), result.tally) == ("the scorer is down", Tally())


async def test_an_overloaded_scorer_is_not_taken_for_a_failed_one() -> None:
    async def overloaded(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        raise Overloaded("too many pairs")

    with pytest.raises(Overloaded):
        await refine("q", [hit("a")], RefinePlan(), overloaded, model=None)


async def test_an_answer_by_another_model_counts_for_nothing() -> None:
    scorer = CountingScorer({"a": 1.0, "b": 1.0})
    stamped = await stamp_hits("q", [hit("a")], None, scorer)
    scorer.model = "fake@2"
    hits = [*stamped.hits, hit("b")]
    result = await refine("q", hits, RefinePlan(), scorer, model="fake@1")
    assert refined(result.hits) == ["a", None]
    assert str(result.failure) == "the scorer's model changed during the request"


async def test_a_strip_without_a_score_leaves_its_hit_unrefined_and_is_named() -> None:
    scorer = CountingScorer({STRIP_A: 9.0, STRIP_B: 9.0, "b": -1.0})
    hits = [passage("a", ABC), hit("b")]
    result = await refine("q", hits, RefinePlan(), scorer, model=None)
    assert refined(result.hits) == [None, "b"]
    assert isinstance(result.failure, Unavailable)
    assert str(result.failure) == "poisoned"


async def test_a_strip_that_came_too_late_is_a_missed_deadline() -> None:
    async def late(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        return ScoreAnswer("fake@1", (PairScore(None, None, reason="late", late=True),), Tally())

    result = await refine("q", [hit("a")], RefinePlan(), late, model=None)
    assert (refined(result.hits), type(result.failure)) == ([None], DeadlineExceeded)


async def test_the_trace_tells_each_strip_with_its_relevance() -> None:
    scorer = CountingScorer({STRIP_A: 0.0, STRIP_B: -math.log(3), "b": 0.0})
    hits = [passage("a", f"{STRIP_A} {STRIP_B}"), hit("b"), hit("bad")]
    result = await refine("q", hits, RefinePlan(), scorer, model=None)
    rows = [tuple(strip.values()) for strip in result.strips]
    assert list(result.strips[0]) == ["id", "strip", "start", "end", "relevance", "kept"]
    assert rows == [
        ("a", 0, 0, 22, 0.5, True),
        ("a", 1, 23, 45, pytest.approx(0.25), False),
        ("b", 0, 0, 1, 0.5, True),
        ("bad", 0, 0, 3, None, False),
    ]


async def test_no_hits_need_no_scorer() -> None:
    scorer = CountingScorer({})
    result = await refine("q", [], RefinePlan(), scorer, model=None)
    assert (result.hits, result.tally, result.failure) == ((), Tally(), None)
    assert scorer.asked == []


@pytest.mark.parametrize(
    "parts",
    [
        ["It works.", "It is fast!", "Is it?", "Yes."],
        ["Pi is 3.14 or so.", "Tools, e.g. Ray, i.e. workers, help."],
        ["Dr. Smith met J. R. Tolkien.", "See Fig. 3 by Li et al. (2024)."],
        ["The U.S. Army came at 5 p.m. on Monday.", "It left."],
        ["Visit example.com today.", "It was 1999.", "Then came 2000."],
        ["1. Open the box.", "2. Close it."],
        ['He said "Stop!" and left.', 'She said "Go."', "(All did.)", "The end"],
        ["Well... perhaps not.", "No?!", "Yes…", "Fine"],
        ["iPhone and co. are sold here, approx. 20 a day.", "Ph.D. Students buy none."],
    ],
)
def test_sentences_end_at_stops_and_not_at_abbreviations(parts: list[str]) -> None:
    assert cut(sentences, " ".join(parts)) == parts


def test_sentences_end_at_blank_lines_and_items_and_not_where_prose_is_wrapped() -> None:
    assert cut(
        sentences, "Title\n\n- first item\n- second,\r\nlonger\n2. last\n# Head\n \nEnd"
    ) == [
        "Title",
        "- first item",
        "- second,\r\nlonger",
        "2. last",
        "# Head",
        "End",
    ]


def test_full_stops_of_scripts_without_spaces_end_sentences() -> None:
    parts = ["猫が好き。", "「本当\uff1f」", "はい\uff01", "終わり"]
    assert cut(sentences, "".join(parts)) == parts


def test_a_strip_is_three_sentences() -> None:
    assert cut(sentence_groups, ABC) == [STRIP_A, STRIP_B, STRIP_C]


def test_a_window_is_fifty_words() -> None:
    words = [f"w{number}" for number in range(120)]
    text = " ".join(words)
    assert cut(windows, text) == [
        " ".join(words[:50]),
        " ".join(words[50:100]),
        " ".join(words[100:]),
    ]


def test_a_text_without_spaces_is_cut_by_characters() -> None:
    text = "猫" * 450
    assert [len(part) for part in cut(windows, text)] == [200, 200, 50]


@given(st.text(alphabet="ab1.!? \n\"'。」"))
def test_sentences_lose_nothing_but_spaces(text: str) -> None:
    parts = cut(sentences, text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part == part.strip() != "" for part in parts)


@given(st.text(alphabet="ab \n猫", max_size=900))
def test_windows_lose_nothing_but_spaces(text: str) -> None:
    assert "".join("".join(cut(windows, text)).split()) == "".join(text.split())


def cut(split: Callable[[str], list[Span]], text: str) -> list[str]:
    return [text[span.start : span.end] for span in split(text)]


async def test_a_min_score_is_not_applied_to_a_model_on_another_scale() -> None:
    plan = RefinePlan(min_score=0.99, other_scales=frozenset({"stand-in@1"}))
    for model, kept in (("fake@1", STRIP_A), ("stand-in@1", ABC)):
        scorer = CountingScorer({STRIP_A: 1.0, STRIP_B: 0.5, STRIP_C: 0.0}, model=model)
        result = await refine("q", [hit(ABC)], plan, scorer, model=None)
        assert (refined(result.hits), result.model) == ([kept], model)


async def test_what_refining_costs_is_bounded_and_the_rest_stays_whole() -> None:
    long = "One two. " * 2_200  # nearly as long as a text may be
    hits = [replace(hit(f"{n}"), text=f"{n} {long}") for n in range(3)]
    scorer = CountingScorer({})
    result = await refine("q", hits, RefinePlan(mode="passage"), scorer, model=None)
    assert scorer.passes == 3
    scorer = CountingScorer({})
    await refine("q", hits, RefinePlan(mode="sentences"), scorer, model=None)
    assert scorer.passes == 0
    assert [one.refined for one in result.hits] == [None] * 3
