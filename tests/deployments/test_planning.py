from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployments.config import AppArgs
from deployments.needs import Parts
from deployments.options import ConfigError
from deployments.planning import plan_search, resolve
from deployments.search_options import SearchArgs
from pipeline.chain import SearchPlan
from pipeline.errors import InvalidInput
from pipeline.grading import Thresholds
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
