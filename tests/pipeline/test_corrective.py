from __future__ import annotations

import pytest

from pipeline.corrective import Correction, CorrectionPlan, Deeper, Found, correct
from pipeline.errors import InvalidInput
from pipeline.grading import Thresholds
from pipeline.hits import Hit
from tests.fakes import CountingScorer, hit

HIGH, MIDDLE, LOW = 5.0, 0.0, -5.0
DEFAULT = CorrectionPlan()


class Deepening:
    """A deeper retrieval that counts how often it is asked."""

    def __init__(self, hits: list[Hit], exhausted: bool = True) -> None:
        self.hits = hits
        self.exhausted = exhausted
        self.depths: list[int] = []

    async def __call__(self, depth: int) -> Deeper:
        self.depths.append(depth)
        return Deeper(tuple(self.hits), self.exhausted)


async def corrected(
    hits: list[Hit],
    scorer: CountingScorer,
    deepen: Deepening | None,
    plan: CorrectionPlan = DEFAULT,
    *,
    top_k: int = 30,
    final_top_k: int = 10,
) -> Correction:
    return await correct(
        "q", hits, plan, top_k=top_k, final_top_k=final_top_k, score=scorer, deepen=deepen
    )


@pytest.mark.parametrize(
    ("logit", "grade"), [(7.4, "correct"), (0.6, "correct"), (-3.0, "incorrect")]
)
async def test_logits_are_graded_as_relevance(logit: float, grade: str) -> None:
    plan = CorrectionPlan(Thresholds(0.6, 0.3))
    result = await corrected([hit("a")], CountingScorer({"a": logit}), None, plan)
    assert [h.grade.value for h in result.graded if h.grade] == [grade]


def test_thresholds_are_inclusive_as_written_and_compared_in_float64() -> None:
    thresholds = Thresholds(0.7, 0.3)
    values = (0.7, 0.6999999999999999, 0.3, 0.29999999999999993)
    assert [thresholds.grade(value).value for value in values] == [
        "correct",
        "ambiguous",
        "ambiguous",
        "incorrect",
    ]


def test_thresholds_that_cross_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Thresholds(0.3, 0.7)


async def test_one_correct_hit_among_thirty_asks_for_no_second_retrieval() -> None:
    ids = [f"h{n:02d}" for n in range(30)]
    scorer = CountingScorer(dict.fromkeys(ids, LOW) | {"h17": HIGH})
    deeper = Deepening([])
    result = await corrected([hit(identity) for identity in ids], scorer, deeper)
    assert ([h.id for h in result.hits], result.verdict) == (["h17"], "correct")
    assert (deeper.depths, scorer.passes, result.corrections) == ([], 30, 0)


async def test_too_few_survivors_continue_once_and_score_only_new_texts() -> None:
    scorer = CountingScorer({"a": LOW, "b": MIDDLE, "c": LOW, "d": HIGH})
    deeper = Deepening([hit("a", 0.4), hit("c", 0.3), hit("b", 0.2), hit("d", 0.1)])
    result = await corrected([hit("a"), hit("b")], scorer, deeper, top_k=2)
    assert scorer.asked == ["a", "b", "c", "d"]
    assert deeper.depths == [6]
    assert [h.id for h in result.hits] == ["d", "b"]
    assert (result.verdict, result.corrections) == ("correct", 1)
    assert [h.fusion_score for h in result.hits] == [0.1, 0.2]
    assert result.tally.reused == 0


async def test_nothing_relevant_anywhere_corrects_once_and_says_incorrect() -> None:
    scorer = CountingScorer(dict.fromkeys("abcd", LOW))
    deeper = Deepening([hit(identity) for identity in "abcd"])
    result = await corrected([hit("a"), hit("b")], scorer, deeper, top_k=2)
    assert (len(deeper.depths), result.corrections, result.verdict) == (1, 1, "incorrect")
    assert result.hits == ()
    assert len(result.graded) == 4


async def test_best_effort_returns_the_incorrect_marked_as_such() -> None:
    result = await corrected(
        [hit("a"), hit("b")],
        CountingScorer({"a": -6.0, "b": -5.0}),
        None,
        CorrectionPlan(on_all_incorrect="best_effort"),
        top_k=2,
    )
    assert [(h.id, h.grade.value if h.grade else None) for h in result.hits] == [
        ("b", "incorrect"),
        ("a", "incorrect"),
    ]
    assert result.verdict == "incorrect"


async def test_an_exhausted_corpus_is_not_asked_again() -> None:
    result = await corrected([hit("a")], CountingScorer({"a": LOW}), None)
    assert (result.corrections, result.verdict) == (0, "incorrect")


async def test_fill_continues_although_a_hit_is_correct() -> None:
    scorer = CountingScorer({"a": HIGH, "b": MIDDLE})
    deeper = Deepening([hit("a"), hit("b")])
    result = await corrected(
        [hit("a")], scorer, deeper, CorrectionPlan(fill=True), top_k=1, final_top_k=2
    )
    assert ([h.id for h in result.hits], result.corrections) == (["a", "b"], 1)


async def test_enough_ambiguous_survivors_ask_for_no_more() -> None:
    deeper = Deepening([])
    result = await corrected(
        [hit(identity) for identity in "abc"],
        CountingScorer(dict.fromkeys("abc", MIDDLE)),
        deeper,
        CorrectionPlan(min_hits=3),
        top_k=3,
    )
    assert (result.verdict, deeper.depths) == ("ambiguous", [])


async def test_min_hits_never_asks_for_more_than_the_hits_wanted() -> None:
    deeper = Deepening([])
    await corrected(
        [hit("a")],
        CountingScorer({"a": MIDDLE}),
        deeper,
        CorrectionPlan(min_hits=3),
        top_k=3,
        final_top_k=1,
    )
    assert deeper.depths == []


async def test_thresholds_are_never_applied_to_unscored_hits() -> None:
    scorer = CountingScorer({"a": LOW})
    result = await corrected([hit("bad"), hit("a")], scorer, Deepening([]), top_k=2)
    assert [h.id for h in result.hits] == ["bad"]
    assert (str(result.failure), result.corrections) == ("poisoned", 0)


async def test_a_batch_of_weak_candidates_is_not_scaled_into_relevance() -> None:
    logits = {"a": -11.0, "b": -9.0, "c": -6.0, "d": -3.0}
    result = await corrected(
        [hit(identity) for identity in logits], CountingScorer(logits), None, top_k=4
    )
    assert [h.grade.value for h in result.graded if h.grade] == ["incorrect"] * 4


async def test_several_corrections_end_where_the_legs_are_exhausted() -> None:
    for exhausted, asked in ((False, [3, 9, 27]), (True, [3])):
        deeper = Deepening([hit("a")], exhausted)
        plan = CorrectionPlan(max_corrections=3)
        await corrected([hit("a")], CountingScorer({"a": LOW}), deeper, plan, top_k=1)
        assert deeper.depths == asked


async def test_a_grade_does_not_outlive_the_stamp_it_was_given_for() -> None:
    scorer = CountingScorer({"a": LOW})
    (graded,) = (await corrected([hit("a")], scorer, None)).graded
    scorer.model, scorer.logits = "fake@2", {"b": MIDDLE}
    result = await corrected([graded, hit("b")], scorer, None)
    assert [(h.id, h.grade.value if h.grade else None) for h in result.hits] == [
        ("b", "ambiguous"),
        ("a", None),
    ]


class Elsewhere:
    """Another source that counts how often it is asked."""

    def __init__(self, *hits: Hit) -> None:
        self.hits = hits
        self.depths: list[int] = []

    async def __call__(self, depth: int) -> Found:
        self.depths.append(depth)
        return Found(self.hits)


@pytest.mark.parametrize(
    ("logit", "depths", "verdict"),
    [(HIGH, [], "correct"), (MIDDLE, [2], "ambiguous"), (LOW, [2], "incorrect")],
)
async def test_another_source_is_asked_once_unless_a_hit_is_correct(
    logit: float, depths: list[int], verdict: str
) -> None:
    source = Elsewhere()
    result = await correct(
        "q",
        [hit("a")],
        CorrectionPlan(fallback="http"),
        top_k=2,
        final_top_k=2,
        score=CountingScorer({"a": logit}),
        deepen=None,
        elsewhere=source,
    )
    assert (source.depths, result.verdict) == (depths, verdict)
    assert result.corrections == len(depths)


async def test_a_continuation_that_finds_a_correct_hit_asks_no_other_source() -> None:
    source = Elsewhere(hit("x"))
    result = await correct(
        "q",
        [hit("a")],
        CorrectionPlan(fallback="http"),
        top_k=1,
        final_top_k=2,
        score=CountingScorer({"a": LOW, "b": HIGH}),
        deepen=Deepening([hit("a"), hit("b")]),
        elsewhere=source,
    )
    assert ([h.id for h in result.hits], source.depths) == (["b"], [])


async def test_no_corrections_means_no_round_of_any_kind() -> None:
    source, deeper = Elsewhere(hit("x")), Deepening([hit("b")])
    result = await correct(
        "q",
        [hit("a")],
        CorrectionPlan(max_corrections=0, fallback="http"),
        top_k=1,
        final_top_k=2,
        score=CountingScorer({"a": LOW}),
        deepen=deeper,
        elsewhere=source,
    )
    assert (deeper.depths, source.depths, result.corrections) == ([], [], 0)


async def test_a_continuation_goes_no_deeper_than_a_thousand() -> None:
    for top_k, depths in ((500, [1000]), (1000, [])):
        deeper = Deepening([hit("a")], exhausted=False)
        scorer = CountingScorer({"a": LOW})
        await corrected([hit("a")], scorer, deeper, CorrectionPlan(max_corrections=2), top_k=top_k)
        assert deeper.depths == depths


async def test_a_model_without_thresholds_is_not_asked_to_look_further() -> None:
    deeper = Deepening([hit("b")])
    plan = CorrectionPlan(by_model={"fake@1": None})
    result = await corrected([hit("a")], CountingScorer({"a": LOW}), deeper, plan, top_k=1)
    assert ([h.id for h in result.hits], result.verdict, deeper.depths) == (["a"], None, [])


async def test_a_continuation_by_another_model_is_graded_by_that_models_thresholds() -> None:
    scorer = CountingScorer({"a": LOW, "b": MIDDLE}, "fake@1", "fake@2")
    plan = CorrectionPlan(by_model={"fake@2": Thresholds(0.5, 0.0)})
    deeper = Deepening([hit("a"), hit("b")])
    result = await corrected([hit("a")], scorer, deeper, plan, top_k=1)
    assert [(h.id, h.grade.value if h.grade else None) for h in result.hits] == [
        ("b", "correct"),
        ("a", "ambiguous"),
    ]
    assert (scorer.asked, result.model) == (["a", "b", "a"], "fake@2")


async def test_unscored_survivors_follow_by_their_fusion_scores_of_the_deepest_round() -> None:
    scorer = CountingScorer({"a": MIDDLE, "b": MIDDLE, "c": LOW}, "fake@1", "fake@2")
    scorer.calls_left = 2
    deeper = Deepening([hit("b", 0.3), hit("c", 0.2), hit("a", 0.1)])
    result = await corrected([hit("a", 0.2), hit("b", 0.1)], scorer, deeper, top_k=2)
    assert [(h.id, h.fusion_score, h.stamp is None) for h in result.hits] == [
        ("b", 0.3, True),
        ("a", 0.1, True),
    ]
    assert str(result.failure) == "the scorer is down"


async def test_every_round_is_a_step_with_its_counts() -> None:
    deeper = Deepening([hit("a"), hit("b")])
    result = await corrected([hit("a")], CountingScorer({"a": LOW, "b": HIGH}), deeper, top_k=1)
    assert [(s["step"], s["action"], s["correct"], s["incorrect"]) for s in result.steps] == [
        ("grade", "incorrect", 0, 1),
        ("continue", "correct", 1, 1),
    ]
    assert (result.steps[1]["depth"], result.steps[1]["new"]) == (3, 1)
