"""Embedding and listing models as OpenAI's clients ask for it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from deployments.gateway import Embeddings
from pipeline.errors import InvalidInput
from tests.deployments.gateway import RecordingGateway, serving


class VectorGateway(RecordingGateway):
    """Embeds every text as the one vector."""

    def __init__(self, *vector: float) -> None:
        super().__init__()
        self.vector = vector

    async def embed(
        self, texts: Sequence[str], as_queries: bool, remaining_ms: float
    ) -> Embeddings:
        vectors = np.tile(np.array(self.vector, np.float32), (len(texts), 1))
        return Embeddings("e@1", vectors, 3 * len(texts))


async def test_texts_become_vectors_in_their_order(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    body = {"model": "text-embedding-3-small", "input": ["a", "b"], "user": "u"}
    response = await client.post("/v1/embeddings", json=body)
    assert response.json() == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, 0.5]},
            {"object": "embedding", "index": 1, "embedding": [0.5, 0.5]},
        ],
        "model": "e@1",
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    }
    assert gateway.calls == [("embed", ["a", "b"], False)]


async def test_a_single_text_is_a_list_of_one(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    response = await client.post("/v1/embeddings", json={"input": "a"})
    assert len(response.json()["data"]) == 1
    assert gateway.calls == [("embed", ["a"], False)]


async def test_base64_is_the_bytes_of_little_endian_float32() -> None:
    async with serving(VectorGateway(1.0, -2.5)) as client:
        body = {"input": "a", "encoding_format": "base64"}
        data = (await client.post("/v1/embeddings", json=body)).json()["data"]
    assert base64.b64decode(data[0]["embedding"]) == bytes.fromhex("0000803f000020c0")


@pytest.mark.parametrize(
    ("given", "as_queries"),
    [
        ({"input_type": "query"}, True),
        ({"input_type": "search_query"}, True),
        ({"task": "retrieval.query"}, True),
        ({"input_type": "document"}, False),
        ({"input_type": "passage"}, False),
        ({"input_type": "search_document"}, False),
        ({"task": "retrieval.passage"}, False),
        ({"input_type": None, "task": None}, False),
    ],
)
async def test_what_a_text_is_chooses_how_it_is_embedded(
    client: httpx.AsyncClient, gateway: RecordingGateway, given: dict[str, Any], as_queries: bool
) -> None:
    response = await client.post("/v1/embeddings", json={"input": "a", **given})
    assert response.status_code == 200
    assert gateway.calls == [("embed", ["a"], as_queries)]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input[0]"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", 5]}, "input[1]"),
        ({"input": ["a", None]}, "input[1]"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "encoding_format": 5}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": "2"}, "dimensions"),
        ({"input": "a", "dimensions": True}, "dimensions"),
        ({"input": "a", "input_type": "image"}, "input_type"),
        ({"input": "a", "task": "classification"}, "task"),
        ({"input": "a", "model": 5}, "model"),
        ({"input": "a", "user": 5}, "user"),
    ],
)
async def test_a_wrong_request_is_422_naming_the_field(
    client: httpx.AsyncClient, gateway: RecordingGateway, given: dict[str, Any], param: str
) -> None:
    response = await client.post("/v1/embeddings", json=given)
    assert (response.status_code, response.json()["error"]["param"]) == (422, param)
    assert gateway.calls == []


@pytest.mark.parametrize("tokens", [[1, 2], [[1, 2], [3]], [True]])
async def test_tokens_are_refused_in_so_many_words(client: httpx.AsyncClient, tokens: Any) -> None:
    response = await client.post("/v1/embeddings", json={"input": tokens})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (422, "input")
    assert error["message"] == "input: must be text: tokens are of another model's"


async def test_only_the_models_own_dimensions_can_be_asked_for_and_no_text_is_embedded(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    response = await client.post("/v1/embeddings", json={"input": "a", "dimensions": 2})
    assert response.status_code == 200
    gateway.calls.clear()
    response = await client.post("/v1/embeddings", json={"input": "a", "dimensions": 256})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (422, "dimensions")
    assert error["message"] == "dimensions: the model's vectors have 2 dimensions"
    assert gateway.calls == [("embed", [], False)]  # which tells how many there are


async def test_too_many_or_too_large_texts_are_413_naming_the_limit(
    client: httpx.AsyncClient,
) -> None:
    for texts, param in ((["a"] * 6, "input"), (["a", "é" * 501], "input[1]")):
        response = await client.post("/v1/embeddings", json={"input": texts})
        assert (response.status_code, response.json()["error"]["param"]) == (413, param)


@pytest.mark.parametrize("format_", ["float", "base64"])
async def test_a_vector_that_is_not_finite_is_never_answered(format_: str) -> None:
    async with serving(VectorGateway(float("nan"), 1.0)) as client:
        body = {"input": "a", "encoding_format": format_}
        response = await client.post("/v1/embeddings", json=body)
    assert response.status_code == 503


async def test_both_models_are_listed(client: httpx.AsyncClient) -> None:
    made = {"object": "model", "created": 0, "owned_by": "onepass"}
    assert (await client.get("/v1/models")).json() == {
        "object": "list",
        "data": [{"id": "m", **made, "max_model_len": 512}, {"id": "e@1", **made}],
    }


async def test_a_part_that_is_not_configured_is_not_listed(gateway: RecordingGateway) -> None:
    gateway.error = InvalidInput("there is none")
    async with serving(gateway) as client:
        response = await client.get("/v1/models")
        assert response.json() == {"object": "list", "data": []}
        response = await client.post("/v1/embeddings", json={"input": "a"})
    assert (response.status_code, response.json()["error"]["message"]) == (422, "there is none")
