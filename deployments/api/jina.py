"""Jina's rerank answer, as a superset that clients of Cohere v1 and of vLLM read too."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import BaseModel, Field

from deployments.api import native
from deployments.api.dialects import (
    ApiVersion,
    BilledUnits,
    RankedDocument,
    RerankRequest,
    Usage,
    result,
    search_units,
    sentence,
    usage,
)
from deployments.ranking import RankedText, RerankAnswer
from pipeline.errors import OnepassError


class WideResult(RankedDocument):
    """A document's score, and what the model saw of it."""

    logit: float | None = Field(description="null from a model that gives none")
    truncated: bool = Field(description="the model saw a part of the text")
    tokens: int = Field(description="read of the pair, the query's among them")


class WideMeta(BaseModel):
    api_version: ApiVersion
    billed_units: BilledUnits
    forward_passes: int = Field(description="that this request caused")
    cached_scores: int = Field(description="from the cache")
    shared_scores: int = Field(description="from another request's pass in flight")
    unscored: list[int] = Field(description="places of documents without a score")


class RerankResponse(BaseModel):
    """Documents by score."""

    id: str
    model: str = Field(description="who scored")
    usage: Usage
    results: list[WideResult]
    meta: WideMeta


class JinaError(native.NativeError):
    message: str
    detail: str


def answer(request: RerankRequest, ranking: RerankAnswer) -> dict[str, Any]:
    """`results` by score, `index` the place in the input; `document` only on request."""
    return {
        "id": uuid.uuid4().hex,
        "model": ranking.model,
        "usage": usage(ranking),
        "results": [wide_result(request, one) for one in ranking.ranked[: request.top_n]],
        "meta": {
            "api_version": {"version": "1"},
            "billed_units": {"search_units": search_units(len(request.documents))},
            "forward_passes": ranking.tally.passes,
            "cached_scores": ranking.tally.cached,
            "shared_scores": ranking.tally.shared,
            "unscored": list(ranking.unscored),
        },
    }


def wide_result(request: RerankRequest, ranked: RankedText) -> dict[str, Any]:
    seen = {"logit": ranked.logit, "truncated": ranked.truncated, "tokens": ranked.tokens}
    return result(request, ranked) | seen


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    """An error as clients of Jina (`detail`), Cohere (`message`) and vLLM (`error`) read it."""
    said = sentence(error)
    return {**native.error(error, request_id), "message": said, "detail": said}
