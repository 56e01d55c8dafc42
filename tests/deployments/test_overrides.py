"""The options of a search as a request gives them: every one, with its bounds and its nulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from pydantic import ValidationError

from deployments.api.native import SearchRequest
from deployments.options import Options, first_error
from deployments.planning import overridden
from deployments.search_options import SearchOptions
from pipeline.errors import InvalidInput
from pipeline.filters import parse_filter
from tests.deployments.gateway import RecordingGateway, error_of

FILTER = {"field": "year", "gte": 2020}
# Every option that there is, and none at its default.
EVERYTHING: dict[str, Any] = {
    "top_k": 40,
    "final_top_k": 7,
    "leg_k": 60,
    "legs": ["bm25"],
    "filter": FILTER,
    "sources": {"allow": ["docs/*"], "block": ["docs/old"]},
    "expansion": {
        "enabled": True,
        "rewrite": False,
        "templates": ["about {query}"],
        "hyde": 2,
        "step_back": True,
        "multi_query": 3,
        "weights": {"hyde": 0.5},
        "drift": "drop",
        "drift_threshold": 0.6,
        "timeout_ms": 1000,
    },
    "fusion": {"method": "convex", "k": 30.0, "weights": {"dense": 2.0}},
    "corrective": {
        "enabled": True,
        "correct_threshold": 0.6,
        "incorrect_threshold": 0.1,
        "min_hits": 5,
        "fill": True,
        "expansion_multiplier": 4,
        "max_corrections": 2,
        "fallback": "corpus:other",
        "on_all_incorrect": "best_effort",
    },
    "rerank": {"enabled": True, "top_n": 20, "append_remaining": False, "min_score": 0.2},
    "boost": [
        {"when": FILTER, "factor": 2.0},
        {"age": {"field": "at", "half_life_days": 30.0, "floor": 0.5}},
    ],
    "refine": {"enabled": True, "mode": "windows", "min_score": 0.4, "max_strips": 9},
    "context": {
        "enabled": False,
        "max_tokens": 100,
        "count": "estimate",
        "order": "edges",
        "delimiter": "\n",
    },
    "on_error": "closed",
    "on_overload": "degrade",
}
NULLABLE = {
    "leg_k",
    "legs",
    "filter",
    "sources.allow",
    "corrective.fallback",
    "rerank.top_n",
    "rerank.min_score",
    "refine.max_strips",
}
DEFAULTS = SearchOptions()
NARROWING = ("filter", "sources")


def classes_in(annotation: Any) -> Iterator[type[Options]]:
    if isinstance(annotation, type) and issubclass(annotation, Options):
        yield annotation
    for part in get_args(annotation):
        yield from classes_in(part)


def options_of(options: type[Options], prefix: str = "") -> Iterator[str]:
    """Every option by its path; those of lists after the list's name."""
    for name, field in options.model_fields.items():
        inner = list(classes_in(field.annotation))
        for one in inner:
            yield from options_of(one, f"{prefix}{name}.")
        if not inner:
            yield prefix + name


def given_in(request: Any, prefix: str = "") -> Iterator[str]:
    """Every option that a request gives, by the same paths."""
    whole = ("weights", "filter", "when")  # objects that are one option's value
    for name, value in request.items():
        parts = [value] if isinstance(value, dict) else value
        if name in whole or not isinstance(parts, list) or not isinstance(parts[0], dict):
            yield prefix + name
        else:
            for part in parts:
                yield from given_in(part, f"{prefix}{name}.")


def nested(path: str, value: Any) -> dict[str, Any]:
    *outer, last = path.split(".")
    request = {last: value}
    for name in reversed(outer):
        request = {name: request}
    return request


def at(path: str, options: Any) -> Any:
    for name in path.split("."):
        options = options[name]
    return options


SINGLE = sorted(path for path in given_in(EVERYTHING) if not path.startswith("boost."))


def parsed(request: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = SearchRequest.model_validate({"query": "q", **request}).given()
    return given


def test_a_givenmay_give_every_option_that_there_is() -> None:
    assert set(given_in(EVERYTHING)) == set(options_of(SearchOptions))
    given = parsed(EVERYTHING)
    assert given == {
        "query": "q",
        "corpus": "default",
        **EVERYTHING,
        "filter": parse_filter(FILTER),
    }
    options = overridden(DEFAULTS, given).model_dump()
    for path in SINGLE:
        if not path.startswith(NARROWING):
            assert at(path, options) == at(path, EVERYTHING)
            assert at(path, options) != at(path, DEFAULTS.model_dump())
    assert options["boost"] == [
        {"when": FILTER, "factor": 2.0, "age": None},
        {"when": None, "factor": None, "age": EVERYTHING["boost"][1]["age"]},
    ]


@pytest.mark.parametrize("path", [path for path in SINGLE if not path.startswith(NARROWING)])
def test_an_option_given_alone_changes_nothing_else_but_switches_its_stage_on(path: str) -> None:
    value = at(path, EVERYTHING)
    stage = path.split(".")[0]
    given = parsed(nested(path, value))
    assert given == {"query": "q", "corpus": "default", **nested(path, value)}
    changed = overridden(DEFAULTS, given).model_dump()
    expected = DEFAULTS.model_dump()
    if "enabled" in (expected[stage] if isinstance(expected[stage], dict) else ()):
        expected[stage]["enabled"] = True
    at_parent = at(path.rpartition(".")[0], expected) if "." in path else expected
    at_parent[path.rpartition(".")[2]] = value
    assert changed == expected


@pytest.mark.parametrize("path", SINGLE)
def test_a_null_is_a_value_where_an_option_has_it_and_else_leaves_the_default(path: str) -> None:
    given = parsed(nested(path, None))
    stage = path.split(".")[0]
    expected = nested(path, None) if path in NULLABLE else ({} if path == stage else {stage: {}})
    assert given == {"query": "q", "corpus": "default", **expected}


@pytest.mark.parametrize("stage", ["expansion", "corrective", "rerank", "refine", "context"])
def test_a_bool_only_switches_and_a_null_does_nothing(stage: str) -> None:
    for switch in (True, False):
        options = overridden(DEFAULTS, parsed({stage: switch})).model_dump()
        assert options[stage] == {**DEFAULTS.model_dump()[stage], "enabled": switch}
    assert overridden(DEFAULTS, parsed({stage: None})) == DEFAULTS
    assert overridden(DEFAULTS, parsed({stage: {"enabled": False}})).model_dump()[stage] == {
        **DEFAULTS.model_dump()[stage],
        "enabled": False,
    }


@pytest.mark.parametrize(
    ("body", "param", "hint"),
    [
        ({"topk": 3}, "topk", "top_k"),
        ({"final_topk": 3}, "final_topk", "final_top_k"),
        ({"corrective": {"max_correction": 1}}, "corrective.max_correction", "max_corrections"),
        ({"refine": {"minscore": 1}}, "refine.minscore", "min_score"),
        ({"sources": {"alow": []}}, "sources.alow", "allow"),
        ({"boost": [{"facter": 2.0}]}, "boost[0].facter", "factor"),
        ({"boost": [{"age": {"half_life": 2.0}}]}, "boost[0].age.half_life", "half_life_days"),
        ({"expansion": {"step_bak": True}}, "expansion.step_bak", "step_back"),
    ],
)
async def test_an_unknown_name_is_refused_with_the_nearest_known_one(
    client: httpx.AsyncClient, body: dict[str, Any], param: str, hint: str
) -> None:
    response = await client.post("/v1/search", json={"query": "q", **body})
    assert error_of(response) == (422, "invalid_input", param)
    message = response.json()["error"]["message"]
    assert message == f"unknown field; did you mean {hint}?"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("top_k", 0),
        ("top_k", 1001),
        ("final_top_k", 1001),
        ("leg_k", 0),
        ("legs", []),
        ("legs", ["other"]),
        ("sources.allow", [""]),
        ("sources.block", ["x" * 4097]),
        ("expansion.templates", ["no place for it"]),
        ("expansion.templates", ["{query}"] * 9),
        ("expansion.hyde", 6),
        ("expansion.hyde", True),
        ("expansion.multi_query", 9),
        ("expansion.weights", {"hyde": -1.0}),
        ("expansion.weights", {"other": 1.0}),
        ("expansion.drift", "maybe"),
        ("expansion.drift_threshold", 1.5),
        ("expansion.timeout_ms", 0),
        ("fusion.method", "sum"),
        ("fusion.k", 0.0),
        ("fusion.weights", {"dense": 1001.0}),
        ("corrective.correct_threshold", -0.1),
        ("corrective.incorrect_threshold", "0.1"),
        ("corrective.expansion_multiplier", 1),
        ("corrective.max_corrections", 6),
        ("corrective.fallback", "ftp"),
        ("corrective.fallback", "corpus:../etc"),
        ("rerank.top_n", 0),
        ("rerank.append_remaining", 1),
        ("rerank.min_score", 1.1),
        ("refine.mode", "words"),
        ("refine.max_strips", 0),
        ("context.max_tokens", 0),
        ("context.delimiter", "x" * 101),
        ("context.order", "best"),
        ("on_error", "ignore"),
    ],
)
async def test_bounds_are_those_of_the_configuration(
    client: httpx.AsyncClient, gateway: RecordingGateway, path: str, value: Any
) -> None:
    response = await client.post("/v1/search", json={"query": "q", **nested(path, value)})
    status, kind, param = error_of(response)
    assert (status, kind, gateway.calls) == (422, "invalid_input", [])
    assert param is not None
    assert param.startswith(path)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"corrective": {"correct_threshold": 0.1, "incorrect_threshold": 0.2}}, "corrective"),
        ({"corrective": {"incorrect_threshold": 0.8}}, "corrective"),
        ({"boost": [{"when": FILTER}]}, "boost[0]"),
        ({"boost": [{"factor": 2.0}]}, "boost[0]"),
        ({"boost": [{"when": {"nope": 1}, "factor": 2.0}]}, "boost[0]"),
        ({"boost": [{"age": {"half_life_days": 1.0}}]}, "boost[0].age.field"),
    ],
)
def test_what_options_demand_together_is_checked_over_the_defaults(
    given: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        overridden(DEFAULTS, parsed(given))
    assert refused.value.param == param


def test_rules_of_a_givenstand_in_place_of_the_configured_ones() -> None:
    configured = SearchOptions.model_validate({"boost": [{"when": FILTER, "factor": 9.0}]})
    assert overridden(configured, parsed({"boost": []})).boost == []
    assert overridden(configured, parsed({"boost": None})).boost == configured.boost


@pytest.mark.parametrize(
    "body",
    [
        {"filter": {"field": "a", "in": [0] * 200_000}},
        {"fusion": {"weights": {f"w{n}": 1.0 for n in range(200_000)}}},
        {"sources": {"block": [[0] * 60_000, [0] * 60_000]}},
    ],
)
def test_json_that_holds_too_much_is_refused_before_it_is_looked_at(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="at most 20000 values"):
        SearchRequest.model_validate({"query": "q", **body})


def test_a_long_name_is_cut_where_it_is_named() -> None:
    with pytest.raises(ValidationError) as refused:
        SearchRequest.model_validate({"query": "q", "fusion": {"weights": {"x" * 1_000_000: 1.0}}})
    path, message = first_error(refused.value)
    assert len(path) < 200
    assert "x" * 100 not in message
