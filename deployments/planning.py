"""From configuration and request to a plan: request > corpus > user_config > args > code."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from pydantic import ValidationError

from deployments.needs import Parts, unmet
from deployments.options import first_error, merged
from deployments.search_options import (
    BoostArgs,
    CorrectiveArgs,
    ExpansionArgs,
    SearchArgs,
    SearchOptions,
    SourcesArgs,
)
from pipeline.boosting import BoostRule, Decay
from pipeline.chain import SearchPlan
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.errors import InvalidInput
from pipeline.expansion import ExpansionPlan, Turn
from pipeline.filters import AllOf, Filter, parse_filter
from pipeline.fusion import FusionPlan
from pipeline.grading import Thresholds
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan
from pipeline.sources import SourceRules

DAY_S = 86_400.0
# What a request adds to the configuration instead of replacing it: it can narrow, never widen.
NARROWING = frozenset({"filter", "sources"})
ByModel = Mapping[str, Thresholds | None]


def overridden(defaults: SearchOptions, request: Mapping[str, Any]) -> SearchOptions:
    """Return the options with the request's in their place.

    Where an option is an object with `enabled`, a bool only switches, and an object switches on
    and overrides. Raises InvalidInput naming the field.
    """
    options = defaults.model_dump()
    for name, value in request.items():
        if name in NARROWING or name not in options:
            continue
        if isinstance(value, bool):
            options[name] = {**options[name], "enabled": value}
        elif isinstance(value, Mapping):
            switch = {"enabled": True} if "enabled" in options[name] else {}
            options[name] = merged(options[name], {**switch, **value})
        else:
            options[name] = value
    if request.get("include_context") is not None:
        options["context"]["enabled"] = request["include_context"]
    try:
        return SearchOptions.model_validate(options)
    except ValidationError as error:
        path, message = first_error(error)
        raise InvalidInput(message, path) from None


def resolve(defaults: SearchArgs, request: Mapping[str, Any], parts: Parts) -> SearchOptions:
    """Return the options that hold for one request.

    Raises InvalidInput for what cannot be: sizes that contradict each other, or an option whose
    part is not there.
    """
    options = overridden(defaults.for_corpus(request["corpus"]), request)
    for name, part in unmet(options, parts):
        raise InvalidInput(f"this needs a {part}, and none is configured", name)
    if options.final_top_k > options.top_k and request.keys() >= {"top_k", "final_top_k"}:
        raise InvalidInput("final_top_k must not exceed top_k", "final_top_k")
    return options


def plan_search(
    options: SearchOptions, request: Mapping[str, Any], by_model: ByModel | None = None
) -> SearchPlan:
    """Say what the pipeline is to do; `by_model` holds the thresholds of the fallback scorers,
    None for one without: their scores lie on scales of their own."""
    history = tuple(Turn(turn["role"], turn["content"]) for turn in request.get("history", ()))
    return SearchPlan(
        query=request["query"],
        top_k=options.top_k,
        final_top_k=min(options.final_top_k, options.top_k),
        leg_k=options.leg_k,
        history=history,
        expansion=expansion_plan(options.expansion),
        fusion=fusion_plan(options),
        correction=correction_plan(options.corrective, by_model or {}),
        rerank=rerank_plan(options, by_model or {}),
        boosts=tuple(boost_rule(rule) for rule in options.boost),
        refine=refine_plan(options, by_model or {}),
        context=context_plan(options),
        now=datetime.now(timezone.utc),
        include_trace=bool(request.get("include_trace")),
        on_error=options.on_error,
    )


def filter_of(options: SearchOptions, request: Mapping[str, Any]) -> Filter | None:
    """Return the configured filter and the request's, which is parsed already, both to hold."""
    configured = None if options.filter is None else parse_filter(options.filter)
    return all_of(configured, request.get("filter"))


def all_of(*filters: Filter | None) -> Filter | None:
    """Return a filter that holds where all of these do; None is no filter."""
    given = tuple(dict.fromkeys(one for one in filters if one is not None))
    return AllOf(given) if len(given) > 1 else next(iter(given), None)


def sources_of(options: SearchOptions, request: Mapping[str, Any]) -> tuple[SourceRules, ...]:
    """Return the configured source rules and the request's, both to hold."""
    asked = SourcesArgs.model_validate(request.get("sources") or {})
    both = [source_rules(args) for args in (options.sources, asked)]
    return tuple(rule for rule in both if rule != SourceRules())


def source_rules(args: SourcesArgs) -> SourceRules:
    return SourceRules(None if args.allow is None else tuple(args.allow), tuple(args.block))


def expansion_plan(args: ExpansionArgs) -> ExpansionPlan | None:
    if not args.enabled:
        return None
    return ExpansionPlan(
        rewrite=args.rewrite,
        templates=tuple(args.templates),
        hyde=args.hyde,
        step_back=args.step_back,
        multi_query=args.multi_query,
        weights={str(kind): weight for kind, weight in args.weights.items()},
        drift=args.drift,
        drift_threshold=args.drift_threshold,
        timeout_s=args.timeout_ms / 1e3,
    )


def fusion_plan(options: SearchOptions) -> FusionPlan:
    args = options.fusion
    weights = {str(leg): weight for leg, weight in args.weights.items()}
    return FusionPlan(args.method, args.k, weights)


def correction_plan(args: CorrectiveArgs, by_model: ByModel) -> CorrectionPlan | None:
    if not args.enabled:
        return None
    return CorrectionPlan(
        Thresholds(args.correct_threshold, args.incorrect_threshold),
        by_model,
        min_hits=args.min_hits,
        fill=args.fill,
        expansion_multiplier=args.expansion_multiplier,
        max_corrections=args.max_corrections,
        fallback=args.fallback,
        on_all_incorrect=args.on_all_incorrect,
    )


def rerank_plan(options: SearchOptions, by_model: ByModel) -> RerankPlan | None:
    args = options.rerank
    if not args.enabled:
        return None
    return RerankPlan(args.top_n, args.append_remaining, args.min_score, frozenset(by_model))


def boost_rule(args: BoostArgs) -> BoostRule:
    when = None if args.when is None else parse_filter(args.when)
    if args.age is None:
        return BoostRule(when, args.factor or 1.0)
    path = tuple(args.age.field.split("."))
    return BoostRule(when, 1.0, Decay(path, args.age.half_life_days * DAY_S, args.age.floor))


def refine_plan(options: SearchOptions, by_model: ByModel) -> RefinePlan | None:
    args = options.refine
    if not args.enabled:
        return None
    return RefinePlan(args.mode, args.min_score, args.max_strips, frozenset(by_model))


def context_plan(options: SearchOptions) -> ContextPlan | None:
    args = options.context
    return ContextPlan(args.max_tokens, args.order, args.delimiter) if args.enabled else None
