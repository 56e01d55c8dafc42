"""Cohere's rerank answer, version 2, with what vLLM's clients read on the same route."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import BaseModel, Field

from deployments.api.dialects import (
    ApiVersion,
    BilledUnits,
    RankedDocument,
    RerankRequest,
    Usage,
    result,
    search_units,
    sentence,
    sometimes,
    usage,
)
from deployments.ranking import RerankAnswer
from pipeline.errors import OnepassError


class Meta(BaseModel):
    api_version: ApiVersion
    billed_units: BilledUnits
    warnings: list[str] = sometimes("there if a document has no score")


class RerankV2Response(BaseModel):
    """Documents by score."""

    id: str
    model: str = Field(description="who scored")
    usage: Usage
    results: list[RankedDocument]
    meta: Meta


class CohereError(BaseModel):
    id: str | None
    message: str


def answer(request: RerankRequest, ranking: RerankAnswer) -> dict[str, Any]:
    """`results` by score; documents without a score are named in `meta.warnings`."""
    meta: dict[str, Any] = {
        "api_version": {"version": "2"},
        "billed_units": {"search_units": search_units(len(request.documents))},
    }
    if ranking.unscored:
        meta["warnings"] = [f"documents[{place}] has no score" for place in ranking.unscored]
    return {
        "id": uuid.uuid4().hex,
        "model": ranking.model,
        "usage": usage(ranking),
        "results": [result(request, one) for one in ranking.ranked[: request.top_n]],
        "meta": meta,
    }


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    return {"id": request_id, "message": sentence(error)}
