"""OpenAI's dialect: embeddings and the list of models."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from deployments.api.dialects import Count, DialectRequest, Usage, sentence, sometimes, usage_of
from deployments.api.wire import Items, Text, valid_text
from deployments.gateway import Embeddings
from pipeline.errors import InvalidInput, OnepassError, Unavailable

KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Writing so many takes ten milliseconds, of a loop that serves everybody.
NUMBERS_AT_ONCE = 10_000
QUERY_KINDS = frozenset({"query", "search_query", "retrieval.query"})


def as_texts(value: Any) -> Any:
    """A text, or a list of them; OpenAI's clients may send tokens of their own model instead."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and isinstance(value[0], int | list):
        raise PydanticCustomError("tokens", "must be text: tokens are of another model's")
    return value


Kind = Literal[
    "query",
    "search_query",
    "retrieval.query",
    "document",
    "passage",
    "search_document",
    "retrieval.passage",
]


Input = Annotated[str, Field(min_length=1), AfterValidator(valid_text)]
Inputs = Items[Input]
AnyInputs = Annotated[Inputs, BeforeValidator(as_texts, json_schema_input_type=Input | Inputs)]


class EmbeddingRequest(DialectRequest):
    """Texts to embed."""

    input: AnyInputs = Field(
        description="a text or a list of texts, at most `limits.documents`; what exceeds the "
        "model's window is cut"
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="base64 = the bytes of little-endian float32"
    )
    dimensions: Count | None = Field(None, description="none but the model's own")
    input_type: Kind | None = Field(
        None, description="what the texts are, in the words of Cohere, Voyage and NIM"
    )
    task: Kind | None = Field(None, description="the same, in Jina's; null = documents")
    user: Text | None = Field(None, description="ignored")

    @property
    def as_queries(self) -> bool:
        return (self.input_type or self.task) in QUERY_KINDS


class Embedding(BaseModel):
    object: Literal["embedding"]
    index: int = Field(description="the text's place in the input, from 0")
    embedding: list[float] | str = Field(description="a string in base64, if that was asked for")


class EmbeddingResponse(BaseModel):
    """A vector for each text, in the input's order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str = Field(description="who embedded")
    usage: Usage


class ServedModel(BaseModel):
    id: str
    object: Literal["model"]
    created: int = Field(description="not known: 0")
    owned_by: str
    max_model_len: int = sometimes("there of the model that scores: its window in tokens")


class ModelList(BaseModel):
    """The model that scores, the model that embeds; what is not there is left out."""

    object: Literal["list"]
    data: list[ServedModel]


class OpenAIProblem(BaseModel):
    message: str
    type: Literal[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "rate_limit_error",
        "server_error",
    ]
    param: str | None = Field(description="the field at fault")
    code: str = Field(description="our own word for what happened")
    request_id: str | None


class OpenAIError(BaseModel):
    error: OpenAIProblem


def check_dimensions(request: EmbeddingRequest, size: int) -> None:
    """Raise InvalidInput where others are asked for than the model's own."""
    if request.dimensions not in (None, size):
        raise InvalidInput(f"the model's vectors have {size} dimensions", "dimensions")


async def written(request: EmbeddingRequest, embeddings: Embeddings) -> str:
    """A vector for each text, in the input's order, as JSON: written a few at a time, others being
    served between.

    Raises Unavailable where a vector is none.
    """
    if not np.isfinite(embeddings.vectors).all():
        raise Unavailable("the model gave a vector that is not finite")
    encode = as_base64 if request.encoding_format == "base64" else as_floats
    at_once = max(1, NUMBERS_AT_ONCE // embeddings.vectors.shape[1])
    data: list[str] = []
    for index, vector in enumerate(embeddings.vectors):
        data.append(compact({"object": "embedding", "index": index, "embedding": encode(vector)}))
        if index % at_once == 0:
            await asyncio.sleep(0)
    rest = compact({"model": embeddings.model, "usage": usage_of(embeddings.tokens)})
    return f'{{"object":"list","data":[{",".join(data)}],{rest[1:]}'


def compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def as_floats(vector: NDArray[np.float32]) -> list[float]:
    floats: list[float] = vector.tolist()
    return floats


def as_base64(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def models(scorer: Mapping[str, Any] | None, embedder: str | None) -> dict[str, Any]:
    """The list of what is served: the model that scores, the one that embeds."""
    listed = [] if scorer is None else [model(scorer["model"], scorer["max_tokens"])]
    if embedder is not None:
        listed.append(model(embedder, None))
    return {"object": "list", "data": listed}


def model(name: str, window: int | None) -> dict[str, Any]:
    """One model; when it was made is not known, and the field must be a number."""
    entry: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": "onepass"}
    return entry if window is None else {**entry, "max_model_len": window}


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": sentence(error),
            "type": KINDS.get(error.status, kind),
            "param": error.param,
            "code": error.type,
            "request_id": request_id,
        }
    }
