"""From configuration and request to a plan: request > user_config > args > code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from deployments.config import unmet
from deployments.options import first_error
from deployments.search_options import SearchArgs
from pipeline.chain import SearchPlan
from pipeline.corrective import CorrectionPlan, Thresholds
from pipeline.errors import InvalidInput
from pipeline.reranking import RerankPlan

# Request fields that override the options of the same name.
OVERRIDES = ("top_k", "final_top_k", "corrective", "rerank")


def overridden(defaults: SearchArgs, request: Mapping[str, Any]) -> SearchArgs:
    """Return the options with the request's in their place.

    `corrective` and `rerank` may be a bool, which only switches, or an object, which switches on
    and overrides. Raises InvalidInput naming the field.
    """
    options = defaults.model_dump()
    for name in OVERRIDES:
        value = request.get(name)
        if isinstance(value, bool):
            options[name] = {**options[name], "enabled": value}
        elif isinstance(value, Mapping):
            options[name] = {**options[name], "enabled": True, **value}
        elif value is not None:
            options[name] = value
    if request.get("include_context") is not None:
        options["context"]["enabled"] = request["include_context"]
    try:
        return SearchArgs.model_validate(options)
    except ValidationError as error:
        path, message = first_error(error)
        raise InvalidInput(message, path) from None


def plan_search(
    defaults: SearchArgs, request: Mapping[str, Any], *, has_scorer: bool
) -> SearchPlan:
    """Resolve one search. Raises InvalidInput for what cannot be: sizes that contradict each
    other, or correction or reranking without a scorer."""
    options = overridden(defaults, request)
    for name in unmet(options, has_scorer):
        raise InvalidInput("this needs a scorer, and none is configured", name)
    if options.final_top_k > options.top_k and None not in (
        request.get("top_k"),
        request.get("final_top_k"),
    ):
        raise InvalidInput("final_top_k must not exceed top_k", "final_top_k")
    return SearchPlan(
        query=request["query"],
        top_k=options.top_k,
        final_top_k=min(options.final_top_k, options.top_k),
        leg_k=options.leg_k,
        fusion_k=options.fusion.k,
        weights={str(leg): weight for leg, weight in options.fusion.weights.items()},
        correction=correction_plan(options),
        rerank=rerank_plan(options),
        context_tokens=options.context.max_tokens if options.context.enabled else None,
        include_trace=bool(request.get("include_trace")),
        on_error=options.on_error,
    )


def correction_plan(options: SearchArgs) -> CorrectionPlan | None:
    args = options.corrective
    if not args.enabled:
        return None
    return CorrectionPlan(
        Thresholds(args.correct_threshold, args.incorrect_threshold),
        min_hits=args.min_hits,
        fill=args.fill,
        expansion_multiplier=args.expansion_multiplier,
        max_corrections=args.max_corrections,
        on_all_incorrect=args.on_all_incorrect,
    )


def rerank_plan(options: SearchArgs) -> RerankPlan | None:
    args = options.rerank
    return RerankPlan(args.top_n, args.append_remaining) if args.enabled else None
