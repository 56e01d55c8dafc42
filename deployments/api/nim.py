"""The ranking dialect of NVIDIA's NIM."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deployments.api.dialects import (
    Asked,
    DialectRequest,
    as_object,
    check_complete,
    score_of,
    sentence,
    usage,
)
from deployments.api.wire import FilledText, Text
from deployments.ranking import RerankAnswer
from pipeline.errors import OnepassError


class Query(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    text: FilledText


class Passage(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    text: Text


class RankingRequest(DialectRequest):
    query: Annotated[Query, BeforeValidator(as_object)]
    passages: Annotated[list[Annotated[Passage, BeforeValidator(as_object)]], Field(min_length=1)]
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
