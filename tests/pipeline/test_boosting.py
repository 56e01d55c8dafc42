from __future__ import annotations

import itertools
import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.boosting import BoostRule, Decay, boost
from pipeline.filters import Exists, OneOf
from pipeline.hits import Boost, Hit, strength_order
from pipeline.stamps import CROSS_ENCODER_SCORE, GRADE, Grade, Stamp
from tests.fakes import hit

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
DAY_S = 86_400.0
NEW = BoostRule(OneOf(("new",), (True,)), 2.0)


def unscored(identity: str, fusion: float, **metadata: Any) -> Hit:
    return replace(hit(identity, fusion), metadata=metadata)


def scored(identity: str, logit: float, **metadata: Any) -> Hit:
    stamp = Stamp(logit, 1 / (1 + math.exp(-logit)), "model", "pair")
    return unscored(identity, 0.5, **metadata).marked(CROSS_ENCODER_SCORE, stamp)


def judged(identity: str, relevance: float, **metadata: Any) -> Hit:
    """A hit whose scorer tells no logit."""
    stamp = Stamp(None, relevance, "model", "pair")
    return unscored(identity, 0.5, **metadata).marked(CROSS_ENCODER_SCORE, stamp)


def ids(hits: tuple[Hit, ...]) -> list[str]:
    return [each.id for each in hits]


def boosts(hits: tuple[Hit, ...]) -> dict[str, Boost | None]:
    return {each.id: each.boost for each in hits}


def factor(rule: BoostRule, **metadata: Any) -> float:
    (only,) = boost([unscored("a", 1.0, **metadata)], [rule], NOW)
    assert only.boost is not None
    return only.boost.factor


# Order and values


def test_a_boost_lifts_a_hit_with_a_negative_logit() -> None:
    hits = boost([scored("a", -1.0), scored("b", -1.5, new=True)], [NEW], NOW)

    assert ids(hits) == ["b", "a"]
    assert boosts(hits) == {
        "b": Boost(2.0, -1.5 + math.log(2), "boosted_logit"),
        "a": Boost(1.0, -1.0, "boosted_logit"),
    }


def test_a_factor_below_one_buries() -> None:
    bury = BoostRule(OneOf(("draft",), (True,)), 0.5)

    assert ids(boost([scored("a", 0.5, draft=True), scored("b", 0.0)], [bury], NOW)) == ["b", "a"]
    assert ids(boost([scored("a", -1, draft=True), scored("b", -1.5)], [bury], NOW)) == ["b", "a"]


def test_a_boost_that_is_too_small_changes_no_order() -> None:
    hits = boost([scored("a", 1.0), scored("b", 0.2, new=True)], [NEW], NOW)

    assert ids(hits) == ["a", "b"]


def test_a_scorer_without_logits_has_its_relevance_multiplied() -> None:
    hits = boost([judged("a", 0.75), judged("b", 0.5, new=True)], [NEW], NOW)

    assert ids(hits) == ["b", "a"]
    assert boosts(hits) == {
        "b": Boost(2.0, 1.0, "boosted_relevance"),
        "a": Boost(1.0, 0.75, "boosted_relevance"),
    }


def test_an_unscored_hit_has_its_fusion_score_multiplied() -> None:
    hits = boost([unscored("a", 0.75), unscored("b", 0.5, new=True)], [NEW], NOW)

    assert ids(hits) == ["b", "a"]
    assert boosts(hits) == {
        "b": Boost(2.0, 1.0, "boosted_fusion"),
        "a": Boost(1.0, 0.75, "boosted_fusion"),
    }


def test_unscored_hits_never_pass_scored_ones() -> None:
    rules = [BoostRule(Exists(("new",)), 1e6), BoostRule(Exists(("old",)), 1e-6)]
    hits = [unscored("a", 1.0, new=1), scored("b", -11.0, old=1), judged("c", 0.0)]

    assert ids(boost(hits, rules, NOW)) == ["c", "b", "a"]


def test_a_hit_without_any_score_gets_no_boost_and_comes_last() -> None:
    bare = Hit("a", "a", 0, "a", metadata={"new": True})
    hits = boost([bare, unscored("b", 0.0)], [NEW], NOW)

    assert ids(hits) == ["b", "a"]
    assert hits[1] == bare


def test_ties_fall_by_strength_then_fusion_then_id_in_whatever_order_hits_come() -> None:
    hits = [
        judged("a", 0.25, new=True),
        judged("b", 0.5),
        replace(judged("c", 0.5), fusion_score=0.6),
        unscored("d", 0.25, new=True),
        unscored("e", 0.5),
        unscored("f", 0.5),
    ]

    for order in itertools.permutations(hits):
        assert ids(boost(order, [NEW], NOW)) == ["c", "b", "a", "e", "f", "d"]


def test_without_rules_hits_come_back_as_they_came() -> None:
    hits = (unscored("a", 0.1), scored("b", 1.0))

    assert boost(hits, [], NOW) == hits


def test_stamp_grade_text_and_metadata_stay() -> None:
    before = scored("a", 1.0, new=True, nested={"k": [1]}).marked(GRADE, Grade("correct", 0.7, 0.3))
    (after,) = boost([before], [NEW], NOW)

    assert after.boost is not None
    assert replace(after, boost=None) == before


# Factors


def test_rules_that_match_multiply() -> None:
    rules = [NEW, BoostRule(Exists(("new",)), 3.0), BoostRule(Exists(("other",)), 5.0)]
    (only,) = boost([unscored("a", 0.5, new=True)], rules, NOW)

    assert only.boost == Boost(6.0, 3.0, "boosted_fusion")


def test_a_rule_without_a_condition_matches_every_hit() -> None:
    assert factor(BoostRule(factor=3.0)) == 3.0


@pytest.mark.parametrize(("each", "bound"), [(1_000.0, 1e6), (1e300, 1e6), (1e-3, 1e-6)])
def test_the_product_stays_within_a_millionth_and_a_million(each: float, bound: float) -> None:
    hits = [scored("a", -1.0), judged("b", 0.5), unscored("c", 0.5)]
    after = boosts(boost(hits, [BoostRule(factor=each)] * 32, NOW))

    assert after == {
        "a": Boost(bound, -1.0 + math.log(bound), "boosted_logit"),
        "b": Boost(bound, 0.5 * bound, "boosted_relevance"),
        "c": Boost(bound, 0.5 * bound, "boosted_fusion"),
    }


def test_a_rule_never_sees_what_the_chain_wrote_into_metadata() -> None:
    graded = scored("a", 1.0).marked(GRADE, Grade("correct", 0.7, 0.3))
    (only,) = boost([graded], [BoostRule(Exists((GRADE,)), 2.0)], NOW)

    assert only.boost == Boost(1.0, 1.0, "boosted_logit")


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_factor_that_is_not_above_zero_and_finite_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite and above 0"):
        BoostRule(factor=wrong)


# Age


def by_age(days: float = 30.0, floor: float = 0.125) -> BoostRule:
    return BoostRule(decay=Decay(("meta", "date"), days * DAY_S, floor))


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2024-06-01T12:00:00Z", 1.0),
        ("2024-05-02T12:00:00Z", 0.5),
        ("2024-04-02T12:00:00Z", 0.25),
        ("2024-03-03T12:00:00Z", 0.125),
        ("1970-01-01", 0.125),
        ("0001-01-01T00:00:00+14:00", 0.125),
        (NOW.timestamp() - 30 * DAY_S, 0.5),
        (int(NOW.timestamp() - 60 * DAY_S), 0.25),
        (-1e300, 0.125),
        (-(10**400), 0.125),
    ],
)
def test_a_factor_halves_with_every_half_life_down_to_the_floor(
    date: object, expected: float
) -> None:
    assert factor(by_age(), meta={"date": date}) == expected


@pytest.mark.parametrize(
    "date",
    [
        "2024-05-02T12:00:00Z",
        "2024-05-02t12:00:00z",
        "2024-05-02 12:00:00",
        "2024-05-02T12:00:00.000",
        "2024-05-02T14:00:00+02:00",
        "2024-05-02T02:30:00.0000000000-09:30",
    ],
)
def test_a_time_may_be_written_in_every_form_of_rfc_3339(date: str) -> None:
    assert factor(by_age(), meta={"date": date}) == 0.5


def test_a_date_is_its_first_moment_in_utc_and_fractions_count() -> None:
    assert factor(by_age(0.5), meta={"date": "2024-06-01"}) == 0.5
    assert factor(by_age(0.25 / DAY_S), meta={"date": "2024-06-01T11:59:59.75Z"}) == 0.5
    assert factor(by_age(0.25 / DAY_S), meta={"date": "2024-06-01T11:59:59.7500009Z"}) == 0.5


@pytest.mark.parametrize(
    "date",
    [
        *["", "yesterday", "2024", "2024-05", "20240502", "2024-W18-4", "2024-5-2", "02.05.2024"],
        *["2024-02-30", "2023-02-29T00:00:00Z", "0000-01-01", "2024-05-02T25:00:00Z"],
        *["2024-05-02T12:00Z", "2024-05-02T12:00:00+2", "2024-05-02T12:00:00+24:00"],
        *["2024-05-02T12:00:00Z ", "2024-05-02\n", "٢٠٢٤-05-02", "1714651200"],
        *[None, True, False, [], ["2024-05-02"], {}, math.nan, math.inf, 10**400],
        *["2024-06-01T12:00:01Z", "9999-12-31", NOW.timestamp() + 1],
        pytest.param((NOW.timestamp() - 30 * DAY_S) * 1_000, id="milliseconds"),
    ],
)
def test_a_time_that_is_unreadable_or_to_come_changes_nothing(date: object) -> None:
    assert factor(by_age(), meta={"date": date}) == 1.0


def test_a_time_that_is_missing_changes_nothing() -> None:
    assert factor(by_age()) == 1.0
    assert factor(by_age(), meta="2024-05-02") == 1.0


def test_age_counts_only_for_hits_that_match_and_multiplies_with_the_factor() -> None:
    rule = BoostRule(Exists(("news",)), 3.0, Decay(("date",), 30 * DAY_S, 0.1))

    assert factor(rule, news=1, date="2024-05-02T12:00:00Z") == 1.5
    assert factor(rule, date="2024-05-02T12:00:00Z") == 1.0


def test_now_may_be_in_any_zone() -> None:
    (only,) = boost(
        [unscored("a", 1.0, meta={"date": "2024-05-02T12:00:00Z"})],
        [by_age()],
        NOW.astimezone(timezone(timedelta(hours=-5))),
    )

    assert only.boost == Boost(0.5, 0.5, "boosted_fusion")


@pytest.mark.parametrize(("half_life", "floor"), [(0, 0.1), (-1, 0.1), (1, 0), (1, 1.5)])
def test_a_decay_without_a_half_life_or_a_floor_is_refused(half_life: float, floor: float) -> None:
    with pytest.raises(ValueError, match="half-life above 0 and a floor"):
        Decay(("date",), half_life, floor)


# Whatever the rules

METADATA = st.fixed_dictionaries(
    {}, optional={"new": st.booleans(), "date": st.floats() | st.text() | st.dates().map(str)}
)
NAMES = [f"n{n}" for n in range(12)]
RULES = st.lists(
    st.builds(
        BoostRule,
        st.sampled_from([None, OneOf(("new",), (True,)), Exists(("date",))]),
        st.floats(min_value=0, exclude_min=True, allow_infinity=False),
        st.none() | st.builds(Decay, st.just(("date",)), st.floats(1e-3, 1e9), st.floats(0.01, 1)),
    ),
    max_size=4,
)


@st.composite
def pools(draw: st.DrawFn) -> list[Hit]:
    """Hits of one ranking: some scored by one scorer, with or without logits, some not."""
    logits = draw(st.booleans())
    pool = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        metadata = draw(METADATA)
        if draw(st.booleans()):
            pool.append(unscored(name, draw(st.floats(0, 1)), **metadata))
        elif logits:
            pool.append(scored(name, draw(st.floats(-12, 12)), **metadata))
        else:
            pool.append(judged(name, draw(st.floats(0, 1)), **metadata))
    return pool


@given(pools(), RULES)
def test_the_same_hits_come_out_in_an_order_of_their_own(
    pool: list[Hit], rules: list[BoostRule]
) -> None:
    after = boost(pool, rules, NOW)

    assert sorted(ids(after)) == sorted(each.id for each in pool)
    assert {each.id: each.stamp for each in after} == {each.id: each.stamp for each in pool}
    if rules:
        places = [(each.stamp is None, -each.boost.value) for each in after if each.boost]
        assert places == sorted(places)
        assert len(places) == len(pool)
        assert all(math.isfinite(value) for _, value in places)
        assert ids(boost(pool[::-1], rules, NOW)) == ids(after)


@given(pools())
def test_a_factor_of_one_changes_no_order(pool: list[Hit]) -> None:
    expected = sorted(pool, key=lambda each: (each.stamp is None, *strength_order(each)))

    assert ids(boost(pool, [BoostRule()], NOW)) == [each.id for each in expected]
