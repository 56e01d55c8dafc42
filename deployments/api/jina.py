"""Jina's rerank dialect, as a superset that Cohere v1 and vLLM clients read too."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from deployments.api import native
from deployments.api.wire import FilledText, Text, valid_text
from deployments.inference.truncation import Side, Truncation
from deployments.ranking import RankedText, RerankAnswer
from pipeline.errors import OnepassError


def as_object(value: Any) -> Any:
    """A document is a string, or an object with its text under `text`."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, Mapping) and not isinstance(value.get("text"), str):
        raise PydanticCustomError("text", "an object needs its text as a string in `text`")
    return value


def identity(value: Any) -> str | int | None:
    """An id is text or a whole number."""
    if value is None or type(value) is int:
        return value
    if type(value) is not str:
        raise PydanticCustomError("id", "an id is a string or an integer")
    return valid_text(value)


def lower(value: Any) -> Any:
    """Hugging Face's clients write Left and Right."""
    return value.lower() if isinstance(value, str) else value


Count = Annotated[int, Field(ge=1)]


class RerankDocument(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    text: Text
    id: Annotated[str | int | None, PlainValidator(identity)] = Field(
        None, description="given back with the result"
    )


class RerankRequest(BaseModel):
    """Fields of other dialects are ignored; those known here are checked strictly."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    query: FilledText
    documents: Annotated[
        list[Annotated[RerankDocument, BeforeValidator(as_object)]], Field(min_length=1)
    ] = Field(description="strings, or objects with `text`")
    top_n: Count | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: Count | None = Field(
        None, description="tokens kept of a document; at most what the model's window leaves"
    )
    max_tokens_per_query: Count | None = Field(
        None, description="tokens kept of the query; at most half the model's window"
    )
    truncation_direction: Annotated[Side | None, BeforeValidator(lower)] = Field(
        None, description="the end that a document loses where it is too long"
    )
    model: Text | None = Field(None, description="ignored: one model is served")

    @property
    def texts(self) -> list[str]:
        return [document.text for document in self.documents]

    @property
    def truncation(self) -> Truncation:
        return Truncation(
            self.truncation_direction, self.max_tokens_per_doc, self.max_tokens_per_query
        )


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
        "index": ranked.place,
        "relevance_score": ranked.relevance,
        "logit": ranked.logit,
        "truncated": ranked.truncated,
        "tokens": ranked.tokens,
    }
    document = request.documents[ranked.place]
    if document.id is not None:
        entry["id"] = document.id
    if request.return_documents:
        entry["document"] = {"text": document.text}
    return entry


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    """An error as clients of Jina (`detail`), Cohere (`message`) and vLLM (`error`) read it."""
    said = {"message": error.message, "detail": error.message}
    return {**native.error(error, request_id), **said}
