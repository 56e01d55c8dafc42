"""The ranking dialect of NVIDIA's NIM."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deployments.api.dialects import (
    QUERY,
    Asked,
    DialectRequest,
    Usage,
    as_object,
    check_complete,
    score_of,
    sentence,
    usage,
)
from deployments.api.wire import FilledText, Items, Text
from deployments.ranking import RerankAnswer
from pipeline.errors import OnepassError


class Query(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    text: FilledText = Field(description=QUERY)


class Passage(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    text: Text = Field(description="what is ranked")


AnyQuery = Annotated[Query, BeforeValidator(as_object, json_schema_input_type=FilledText | Query)]
AnyPassage = Annotated[Passage, BeforeValidator(as_object, json_schema_input_type=str | Passage)]


class RankingRequest(DialectRequest):
    """Passages to rank for a query."""

    query: AnyQuery = Field(description="a string, or an object with `text`")
    passages: Items[AnyPassage] = Field(
        description="strings, or objects with `text`; at most `limits.documents`"
    )
    truncate: Literal["NONE", "END"] | None = Field(
        None, description="END cuts passages that are too long; NONE, the default, refuses them"
    )

    @property
    def asked(self) -> Asked:
        return Asked(
            self.query.text,
            [passage.text for passage in self.passages],
            whole=self.truncate != "END",
            query_param="query.text",
            texts_param="passages",
        )


class RankedPassage(BaseModel):
    index: int = Field(description="the passage's place in the input, from 0")
    logit: float


class RankingResponse(BaseModel):
    """All passages by logit."""

    rankings: list[RankedPassage]
    usage: Usage


class NimError(BaseModel):
    error: str
    detail: str
    requestId: str | None


def answer(ranking: RerankAnswer) -> dict[str, Any]:
    """All passages by logit.

    Raises InvalidInput where the model gives none, Unavailable where a passage has no score.
    """
    check_complete(ranking.unscored, "passages")
    rankings = [
        {"index": one.place, "logit": score_of(one, True, "model")} for one in ranking.ranked
    ]
    return {"rankings": rankings, "usage": usage(ranking)}


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    return {"error": sentence(error), "detail": sentence(error), "requestId": request_id}
