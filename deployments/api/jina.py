"""Jina's rerank dialect, as a superset that Cohere v1 and vLLM clients read too."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from deployments.api.wire import FilledText, Text
from deployments.ranking import RankedText, RerankAnswer


def text_of(value: Any) -> Any:
    """A document is a string, or an object with its text under `text`."""
    if isinstance(value, Mapping):
        if not isinstance(value.get("text"), str):
            raise PydanticCustomError("text", "an object needs its text as a string in `text`")
        return value["text"]
    return value


class RerankRequest(BaseModel):
    """Fields of other dialects are ignored; those known here are checked strictly."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    query: FilledText
    documents: Annotated[list[Annotated[Text, BeforeValidator(text_of)]], Field(min_length=1)] = (
        Field(description="strings, or objects with `text`")
    )
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool | None = None
    model: Text | None = Field(None, description="ignored: one model is served")


def answer(request: RerankRequest, ranking: RerankAnswer) -> dict[str, Any]:
    """`results` by score, `index` the place in the input; `document` only on request."""
    ranked = ranking.ranked[: request.top_n]
    return {
        "id": uuid.uuid4().hex,
        "model": ranking.model,
        "usage": {"total_tokens": ranking.tally.tokens},
        "results": [result(one, request) for one in ranked],
        "meta": {
            "forward_passes": ranking.tally.passes,
            "cached_scores": ranking.tally.cached,
            "shared_scores": ranking.tally.shared,
            "unscored": list(ranking.unscored),
        },
    }


def result(ranked: RankedText, request: RerankRequest) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "index": ranked.index,
        "relevance_score": ranked.relevance,
        "logit": ranked.logit,
        "truncated": ranked.truncated,
    }
    if request.return_documents:
        entry["document"] = {"text": request.documents[ranked.index]}
    return entry
