from __future__ import annotations

from dataclasses import replace
from datetime import timezone
from typing import Any

import pytest

from deployments.config import AppArgs, with_user_config
from deployments.needs import Parts
from deployments.options import ConfigError
from deployments.planning import filter_of, plan_search, resolve, sources_of
from deployments.search_options import SearchArgs
from pipeline.boosting import BoostRule, Decay
from pipeline.chain import SearchPlan
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.errors import InvalidInput
from pipeline.expansion import ExpansionPlan, Turn
from pipeline.filters import AllOf, matches, parse_filter
from pipeline.fusion import FusionPlan
from pipeline.grading import Thresholds
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan

ON = SearchArgs.model_validate(
    {
        "top_k": 30,
        "corrective": {"enabled": True, "correct_threshold": 0.5, "incorrect_threshold": 0.02},
        "rerank": {"enabled": True, "top_n": 20},
    }
)


ALL = Parts(scorer=True, embedder=True, chat=True, web_search=True)
NO_SCORER = replace(ALL, scorer=False)


def planned(defaults: SearchArgs, request: dict[str, Any], parts: Parts = ALL) -> SearchPlan:
    request = {"corpus": "c", **request}
    return plan_search(resolve(defaults, request, parts), request)


def test_a_request_overrides_the_configuration_and_leaves_the_rest() -> None:
    request = {"query": "q", "corrective": {"correct_threshold": 0.9}, "final_top_k": 3}
    plan = planned(ON, request)
    assert plan.correction is not None
    assert plan.correction.thresholds == Thresholds(0.9, 0.02)
    assert (plan.top_k, plan.final_top_k) == (30, 3)


def test_a_bool_switches_and_an_object_switches_on() -> None:
    off = planned(ON, {"query": "q", "corrective": False, "rerank": False})
    assert (off.correction, off.rerank) == (None, None)
    on = planned(SearchArgs(), {"query": "q", "rerank": {"top_n": 5}})
    assert on.rerank == RerankPlan(5, True)


def test_an_explicit_null_top_n_means_all() -> None:
    plan = planned(ON, {"query": "q", "rerank": {"top_n": None}})
    assert plan.rerank == RerankPlan(None, True)


def test_final_top_k_above_top_k_is_refused_if_both_are_given_else_clamped() -> None:
    with pytest.raises(InvalidInput) as refused:
        planned(ON, {"query": "q", "top_k": 5, "final_top_k": 6})
    assert refused.value.param == "final_top_k"
    assert planned(ON, {"query": "q", "top_k": 5}).final_top_k == 5


@pytest.mark.parametrize("part", ["corrective", "rerank"])
def test_without_a_scorer_asking_for_one_names_what_is_missing(part: str) -> None:
    with pytest.raises(InvalidInput, match="scorer") as refused:
        planned(SearchArgs(), {"query": "q", part: True}, NO_SCORER)
    assert refused.value.param == part


def test_thresholds_that_cross_the_configured_one_are_refused() -> None:
    request = {"query": "q", "corrective": {"incorrect_threshold": 0.6}}
    with pytest.raises(InvalidInput) as refused:
        planned(ON, request)
    assert refused.value.param == "corrective"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"scorer": None, "search": {"rerank": {"enabled": True}}}, "search.rerank needs a scorer"),
        ({"scorer": {"modle": "x"}}, "configuration: scorer.modle"),
        ({"search": {"top_k": "30"}}, "configuration: search.top_k"),
        ({"search": {"top_k": 0}}, "greater than or equal to 1"),
        ({"chunking": {"max_tokens": 16, "overlap_tokens": 16}}, "must be smaller"),
    ],
)
def test_a_wrong_option_is_one_clear_line(args: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        AppArgs.model_validate(args)
    assert "\n" not in str(refused.value)


def test_a_request_goes_before_the_corpus_the_user_config_and_the_args() -> None:
    args = AppArgs.model_validate(
        {"search": {"top_k": 11, "final_top_k": 4, "leg_k": 71, "fusion": {"k": 51.0}}}
    )
    live = with_user_config(
        args, {"top_k": 12, "final_top_k": 5, "corpora": {"c": {"top_k": 13, "leg_k": 73}}}
    )
    plan = planned(live, {"query": "q", "top_k": 14})
    assert (plan.top_k, plan.leg_k, plan.final_top_k, plan.fusion.k) == (14, 73, 5, 51.0)
    other = planned(live, {"query": "q", "corpus": "other"})
    assert (other.top_k, other.leg_k) == (12, 71)


def test_every_stage_is_off_in_code_but_the_context() -> None:
    plan = planned(SearchArgs(), {"query": "q"})
    assert replace(plan, now=SearchPlan("q").now) == SearchPlan("q", context=ContextPlan())


def test_the_options_of_every_stage_reach_its_plan() -> None:
    turns = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Goethe."}]
    request = {
        "query": "q",
        "leg_k": 70,
        "history": turns,
        "include_trace": True,
        "on_error": "closed",
        "expansion": {
            "rewrite": False,
            "templates": ["about {query}"],
            "hyde": 2,
            "step_back": True,
            "multi_query": 3,
            "weights": {"hyde": 0.5},
            "drift": "drop",
            "drift_threshold": 0.6,
            "timeout_ms": 1500,
        },
        "fusion": {"method": "dbsf", "k": 30.0, "weights": {"dense": 2.0}},
        "corrective": {
            "correct_threshold": 0.6,
            "incorrect_threshold": 0.1,
            "min_hits": 5,
            "fill": True,
            "expansion_multiplier": 4,
            "max_corrections": 2,
            "fallback": "corpus:other",
            "on_all_incorrect": "best_effort",
        },
        "rerank": {"top_n": 9, "append_remaining": False, "min_score": 0.0},
        "refine": {"mode": "windows", "min_score": 0.4, "max_strips": 9},
        "context": {"max_tokens": 100, "order": "edges", "delimiter": "|"},
    }
    plan = planned(SearchArgs(), request)
    assert plan == SearchPlan(
        "q",
        leg_k=70,
        history=(Turn("user", "Who?"), Turn("assistant", "Goethe.")),
        expansion=ExpansionPlan(
            False, ("about {query}",), 2, True, 3, {"hyde": 0.5}, "drop", 0.6, 1.5
        ),
        fusion=FusionPlan("dbsf", 30.0, {"dense": 2.0}),
        correction=CorrectionPlan(
            Thresholds(0.6, 0.1), {}, 5, True, 4, 2, "corpus:other", "best_effort"
        ),
        rerank=RerankPlan(9, False, 0.0),
        refine=RefinePlan("windows", 0.4, 9),
        context=ContextPlan(100, "edges", "|"),
        now=plan.now,
        include_trace=True,
        on_error="closed",
    )
    assert plan.now.tzinfo is timezone.utc


def test_rules_become_factors_by_filter_and_by_age() -> None:
    when = {"field": "lang", "eq": "en"}
    age = {"field": "meta.at", "half_life_days": 2.0, "floor": 0.5}
    plan = planned(
        SearchArgs(), {"query": "q", "boost": [{"when": when, "factor": 3.0}, {"age": age}]}
    )
    assert plan.boosts == (
        BoostRule(parse_filter(when), 3.0),
        BoostRule(None, 1.0, Decay(("meta", "at"), 172_800.0, 0.5)),
    )


def test_thresholds_of_remote_rerankers_go_along_by_model() -> None:
    by_model = {"cohere/m": Thresholds(0.6, 0.2), "jina/j": None}
    plan = plan_search(resolve(ON, {"query": "q", "corpus": "c"}, ALL), {"query": "q"}, by_model)
    assert plan.correction is not None
    assert [plan.correction.thresholds_for(model) for model in ("cohere/m", "jina/j", "m@1")] == [
        Thresholds(0.6, 0.2),
        None,
        Thresholds(0.5, 0.02),
    ]


def test_include_context_is_the_same_as_switching_the_context() -> None:
    assert planned(SearchArgs(), {"query": "q", "include_context": False}).context is None
    off = SearchArgs.model_validate({"context": {"enabled": False}})
    assert planned(off, {"query": "q", "include_context": True}).context == ContextPlan()
    assert planned(off, {"query": "q", "include_context": None}).context is None


@pytest.mark.parametrize(
    ("configured", "requested", "passing"),
    [
        (None, None, {1, 2, 3}),
        ({"field": "n", "gte": 2}, None, {2, 3}),
        (None, {"field": "n", "lte": 2}, {1, 2}),
        ({"field": "n", "gte": 2}, {"field": "n", "lte": 2}, {2}),
        ({"field": "n", "gte": 2}, {"field": "n", "gte": 1}, {2, 3}),
        ({"field": "n", "eq": 1}, {"not": {"field": "n", "eq": 1}}, set()),
    ],
)
def test_a_filter_of_a_request_narrows_the_configured_one_and_never_widens_it(
    configured: dict[str, Any] | None, requested: dict[str, Any] | None, passing: set[int]
) -> None:
    defaults = SearchArgs.model_validate({"filter": configured})
    parsed = None if requested is None else parse_filter(requested)
    request = {"query": "q", "corpus": "c", "filter": parsed}
    combined = filter_of(resolve(defaults, request, ALL), request)
    assert {n for n in (1, 2, 3) if combined is None or matches(combined, {"n": n})} == passing
    assert isinstance(combined, AllOf) is (configured is not None and requested is not None)


@pytest.mark.parametrize(
    ("configured", "requested", "allowed"),
    [
        ({}, None, ["docs/a", "docs/b", "news/a", None]),
        ({"allow": ["docs/*"]}, {"allow": ["*"]}, ["docs/a", "docs/b"]),
        ({"allow": ["docs/*"]}, {"allow": ["news/*"]}, []),
        ({"allow": ["docs/*"]}, {"allow": None}, ["docs/a", "docs/b"]),
        ({"block": ["docs/*"]}, {"block": []}, ["news/a", None]),
        ({"block": ["docs/a"]}, {"block": ["news/*"]}, ["docs/b", None]),
        ({}, {"allow": ["docs/a"]}, ["docs/a"]),
    ],
)
def test_sources_of_a_request_narrow_the_configured_ones_and_never_widen_them(
    configured: dict[str, Any], requested: dict[str, Any] | None, allowed: list[str | None]
) -> None:
    defaults = SearchArgs.model_validate({"sources": configured})
    request = {"query": "q", "corpus": "c", "sources": requested}
    rules = sources_of(resolve(defaults, request, ALL), request)
    sources = ["docs/a", "docs/b", "news/a", None]
    assert [one for one in sources if all(rule.allows(one) for rule in rules)] == allowed


def test_a_web_search_that_is_not_there_cannot_be_fallen_back_to() -> None:
    request = {"query": "q", "corrective": {"fallback": "http"}}
    with pytest.raises(InvalidInput, match="web_search") as refused:
        planned(ON, request, replace(ALL, web_search=False))
    assert refused.value.param == "corrective.fallback"


def test_a_corpuss_filter_takes_the_place_of_the_general_one_whole() -> None:
    defaults = SearchArgs.model_validate(
        {
            "filter": {"field": "lang", "eq": "en"},
            "corpora": {"news": {"filter": {"field": "year", "gte": 2020}}},
        }
    )
    assert defaults.for_corpus("news").filter == {"field": "year", "gte": 2020}
    assert defaults.for_corpus("other").filter == {"field": "lang", "eq": "en"}


@pytest.mark.parametrize("template", ["no place", "{query} {query}", "{query} {other}"])
def test_a_template_has_one_place_for_the_query(template: str) -> None:
    with pytest.raises(ConfigError, match=r"expansion\.templates\[0\]"):
        AppArgs.model_validate({"search": {"expansion": {"templates": [template]}}})


def test_a_corpus_may_have_the_name_of_an_option() -> None:
    args = AppArgs.model_validate({"search": {"corpora": {"filter": {"top_k": 7}}}})
    search = with_user_config(args, {"corpora": {"filter": {"final_top_k": 3}}})
    options = search.for_corpus("filter")
    assert (options.top_k, options.final_top_k) == (7, 3)
