"""The rerank dialect of Hugging Face's text-embeddings-inference."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, RootModel, Tag

from deployments.api.dialects import (
    QUERY,
    Asked,
    Count,
    DialectRequest,
    Direction,
    RerankRequest,
    check_complete,
    score_of,
    sentence,
    sometimes,
)
from deployments.api.wire import FilledText, Items, Text
from deployments.config import LimitsArgs
from deployments.inference.truncation import Truncation
from deployments.ranking import RerankAnswer
from pipeline.errors import OnepassError

KINDS = {429: "Overloaded", 503: "Unhealthy"}
LABEL = "LABEL_0"


class TextsRequest(DialectRequest):
    """Texts to rank."""

    query: FilledText = Field(description=QUERY)
    texts: Items[Text] = Field(description="what is ranked; at most `limits.documents`")
    truncate: bool | None = Field(
        None, description="false refuses texts that are too long, which are cut otherwise"
    )
    truncation_direction: Direction = Field(None, description="the end that such a text loses")
    raw_scores: bool | None = Field(None, description="true = logits, not relevance from 0 to 1")
    return_text: bool | None = Field(None, description="true = each result holds its `text`")
    top_n: Count | None = Field(None, description="results at most, as LiteLLM asks; null = all")

    @property
    def asked(self) -> Asked:
        return Asked(
            self.query,
            self.texts,
            Truncation(self.truncation_direction),
            whole=self.truncate is False,
            texts_param="texts",
        )


def kind_of(body: Any) -> str:
    return "~texts" if isinstance(body, Mapping) and "texts" in body else "~documents"


# On the route that this dialect shares with Jina's, `texts` tells the one from the other.
EitherRequest = Annotated[
    Annotated[TextsRequest, Tag("~texts")] | Annotated[RerankRequest, Tag("~documents")],
    Discriminator(kind_of),
]


class TextScore(BaseModel):
    index: int = Field(description="the text's place in the input, from 0")
    score: float = Field(description="from 0 to 1; the logit with `raw_scores`")
    text: str = sometimes("there with `return_text`")


class TextScores(RootModel[list[TextScore]]):
    """Texts by score, asked for with `texts`."""


class Labels(BaseModel):
    id2label: dict[str, str]
    label2id: dict[str, int]


class ModelType(BaseModel):
    reranker: Labels


class InfoAnswer(BaseModel):
    """The model that scores, and its limits."""

    model_id: str
    model_sha: str | None
    model_type: ModelType
    max_input_length: int = Field(description="the model's window in tokens")
    max_client_batch_size: int = Field(description="texts in one request")
    auto_truncate: Literal[True]
    version: str = Field(description="Onepass's")


class TeiError(BaseModel):
    error: str
    error_type: Literal["Validation", "Overloaded", "Unhealthy", "Backend"]
    detail: str


def answer(request: TextsRequest, ranking: RerankAnswer) -> list[dict[str, Any]]:
    """Texts by score, `index` the place in the input; `text` only on request.

    Raises Unavailable where a text has no score.
    """
    check_complete(ranking.unscored, "texts")
    raw, texts = request.raw_scores is True, request.texts
    return [
        {"index": one.place, "score": score_of(one, raw, "raw_scores")}
        | ({"text": texts[one.place]} if request.return_text else {})
        for one in ranking.ranked[: request.top_n]
    ]


def info(described: Mapping[str, Any], limits: LimitsArgs) -> dict[str, Any]:
    """What clients ask before they send texts: the model, its window, how many texts at once."""
    name, _, digest = described["model"].partition("@")
    return {
        "model_id": name,
        "model_sha": digest or None,
        "model_type": {"reranker": {"id2label": {"0": LABEL}, "label2id": {LABEL: 0}}},
        "max_input_length": described["max_tokens"],
        "max_client_batch_size": limits.documents,
        "auto_truncate": True,
        "version": version("onepass"),
    }


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    """An error; with `detail`, which those read who send `documents` to the same route."""
    kind = KINDS.get(error.status, "Validation" if error.status < 500 else "Backend")
    return {"error": sentence(error), "error_type": kind, "detail": sentence(error)}
