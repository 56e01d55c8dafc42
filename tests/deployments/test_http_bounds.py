"""What a request may hold at most: refused before it is looked at, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.types import Message

from deployments.api import ndjson
from deployments.api.native import SearchRequest
from deployments.api.openai import NUMBERS_AT_ONCE, EmbeddingRequest, written
from deployments.api.wire import MAX_ITEMS, MAX_VALUES
from deployments.config import AuthArgs, LimitsArgs
from deployments.gateway import Embeddings
from deployments.ingress import create_api
from pipeline.documents import Document, PutResult
from tests.deployments.gateway import RecordingGateway, error_of

PUT = "/v1/corpora/c/documents"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def client(gateway: RecordingGateway) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the routes with the limits that are the default."""
    transport = httpx.ASGITransport(create_api(gateway, LimitsArgs(), AuthArgs()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as running:
        yield running


async def refusal(client: httpx.AsyncClient, path: str, body: Any) -> tuple[int, str]:
    method = "PUT" if path == PUT else "POST"
    response = await client.request(method, path, content=json.dumps(body), headers=JSON)
    return response.status_code, response.text


LISTS: list[tuple[str, str, dict[str, Any]]] = [
    ("/v1/rerank", "documents", {"query": "q"}),
    ("/v2/rerank", "documents", {"query": "q"}),
    ("/v1/rerank", "documents", {"query": "q", "rank_fields": ["a"]}),
    ("/rerank", "texts", {"query": "q"}),
    ("/v1/ranking", "passages", {"query": "q"}),
    ("/score", "text_2", {"text_1": "q"}),
    ("/score", "text_1", {"text_2": ["a"]}),
    ("/v1/embeddings", "input", {}),
    (PUT, "documents", {}),
]


@pytest.mark.parametrize(("path", "field", "beside"), LISTS)
@pytest.mark.parametrize("item", ["a", 5, {}, None, {"text": "a"}])
async def test_a_list_of_very_many_is_413_whatever_it_holds(
    client: httpx.AsyncClient,
    gateway: RecordingGateway,
    path: str,
    field: str,
    beside: dict[str, Any],
    item: Any,
) -> None:
    # OpenAI's clients may send a list of tokens, which is refused as such.
    items = ["a"] + [item] * MAX_ITEMS
    status, said = await refusal(client, path, {field: items, **beside})
    assert (status, f"must hold at most {MAX_ITEMS} items" in said) == (413, True)
    assert field in said
    assert gateway.calls == []


@pytest.mark.parametrize("extra", [0, 1])
async def test_a_list_within_reach_is_measured_by_the_configured_limit(
    client: httpx.AsyncClient, extra: int
) -> None:
    for path, field, beside in (LISTS[0], LISTS[3], LISTS[5]):
        status, said = await refusal(client, path, {field: ["a"] * (1000 + extra), **beside})
        assert status == (413 if extra else 200)
        assert not extra or "must hold at most 1000 documents" in said


def test_the_first_bad_item_of_a_list_is_the_only_error() -> None:
    request = {"query": "q", "sources": {"allow": [5] * 900}, "history": [{"role": 5}] * 900}
    errors = []
    try:
        SearchRequest.model_validate(request)
    except ValueError as error:
        errors = error.errors()  # type: ignore[attr-defined]
    places = [one["loc"] for one in errors]
    assert places == [
        ("sources", "allow", 0),
        ("history", 0, "role"),
        ("history", 0, "content"),
    ]


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"sources": {"block": ["a"] * 1001}}, "sources.block"),
        ({"boost": [{}] * 1001}, "boost"),
        ({"legs": ["dense"] * 1001}, "legs"),
        ({"fusion": {"weights": {str(n): 1 for n in range(1001)}}}, "fusion.weights"),
        ({"filter": {str(n): 1 for n in range(1001)}}, "filter"),
        ({"filter": {"field": "a", "in": [0] * MAX_VALUES}}, "body"),
    ],
)
async def test_options_that_hold_very_much_are_413(
    client: httpx.AsyncClient, gateway: RecordingGateway, options: dict[str, Any], param: str
) -> None:
    response = await client.post("/v1/search", json={"query": "q", **options})
    assert error_of(response) == (413, "payload_too_large", param)
    assert gateway.calls == []


def test_a_sum_of_values_is_bounded_however_they_are_nested() -> None:
    """Lists in lists, each of which is small enough."""
    nested: Any = [0]
    for _ in range(40):
        nested = [nested, *[0] * (MAX_VALUES // 20)]
    with pytest.raises(ValueError, match=f"must hold at most {MAX_VALUES} values"):
        SearchRequest.model_validate({"query": "q", "filter": {"a": nested}})


async def test_fields_to_rank_by_are_few_and_each_stands_once(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    document = {f"f{n}": "x" for n in range(33)}
    for fields in (["f0", "f1", "f0"], [f"f{n}" for n in range(33)], ["f0"] * 50_000):
        body = {"query": "q", "documents": [document] * 3, "rank_fields": fields}
        response = await client.post("/v1/rerank", json=body)
        assert error_of(response) == (422, "invalid_input", "rank_fields")
    assert gateway.calls == []
    body = {"query": "q", "documents": [document], "rank_fields": [f"f{n}" for n in range(32)]}
    assert (await client.post("/v1/rerank", json=body)).status_code == 200
    assert gateway.calls[0][2] == ["\n".join("x" * 32)]


def stored(*documents: dict[str, Any]) -> dict[str, Any]:
    return {"documents": [{"id": str(n), "text": "t", **one} for n, one in enumerate(documents)]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (stored({"metadata": {"a": [0] * MAX_VALUES}}), "documents[0].metadata"),
        (stored(*[{"metadata": {"a": [0] * 1000}}] * 100), "body"),
        (stored(*[{"chunks": ["a"] * 5000}] * 20), "body"),
        (stored({}, {"chunks": ["a"] * (MAX_ITEMS + 1)}), "documents[1].chunks"),
        (
            stored({}, {"chunks": ["a"] * 1200, "metadata": {"a": "x" * 60_000}}),
            "documents[1].chunks",
        ),
        (
            stored(*[{"chunks": ["a"] * 600, "metadata": {"a": "x" * 60_000}}] * 2),
            "documents[1].chunks",
        ),
    ],
)
async def test_documents_that_hold_very_much_are_413_and_nothing_is_stored(
    client: httpx.AsyncClient, gateway: RecordingGateway, body: Any, param: str
) -> None:
    response = await client.put(PUT, json=body)
    assert error_of(response) == (413, "payload_too_large", param)
    assert gateway.calls == []


async def test_documents_that_hold_much_are_stored(client: httpx.AsyncClient) -> None:
    deep: Any = {"n": 1}
    for _ in range(63):
        deep = {"d": deep}
    body = stored(
        {"metadata": {"a": [0] * (MAX_VALUES - 1)}},
        {"chunks": ["a"] * MAX_ITEMS},
        {"chunks": ["a"] * 1000, "metadata": {"a": "x" * 60_000}},
        {"metadata": deep},
    )
    assert (await client.put(PUT, json=body)).status_code == 200


async def test_a_line_that_holds_very_much_is_refused_alone(client: httpx.AsyncClient) -> None:
    lines = [
        {"id": "a", "text": "t"},
        {"id": "b", "chunks": [5] * (MAX_ITEMS + 1)},
        {"id": "c", "text": "t", "metadata": {"a": [0] * MAX_VALUES}},
        {"id": "d", "chunks": ["a"] * 1200, "metadata": {"a": "x" * 60_000}},
    ]
    content = "\n".join(map(json.dumps, lines))
    response = await client.post(
        PUT, content=content, headers={"Content-Type": "application/x-ndjson"}
    )
    answers = [json.loads(line) for line in response.text.splitlines()]
    assert [(one["status"], one["error"]) for one in answers] == [
        ("stored", None),
        ("refused", f"chunks: must hold at most {MAX_ITEMS} items"),
        ("refused", f"metadata: must hold at most {MAX_VALUES} values"),
        (
            "refused",
            "chunks: the metadata that each carries makes more than 67108864 bytes in all",
        ),
    ]


class Turns:
    """Counts how often the loop turned to others, from the start of the block to its end."""

    async def __aenter__(self) -> Turns:
        self.count = 0
        self.counting = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.counting.cancel()

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


async def test_others_are_served_while_the_lines_of_one_part_are_read() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"5\n" * 1000, "more_body": False}

    async def put(documents: Sequence[Document]) -> list[PutResult]:
        raise AssertionError("there is nothing to store")

    async with Turns() as turns:
        answers = [line async for line in ndjson.ingest(receive, put, LimitsArgs())]
    assert len(answers) == 1000
    assert turns.count >= 1000 // ndjson.BATCH_LINES


async def test_others_are_served_while_vectors_are_written() -> None:
    vectors = np.linspace(-1, 1, 200 * 384, dtype=np.float32).reshape(200, 384)
    request = EmbeddingRequest.model_validate({"input": ["a"] * 200})
    async with Turns() as turns:
        said = json.loads(await written(request, Embeddings("m", vectors, 3)))
    assert turns.count >= 200 * 384 // NUMBERS_AT_ONCE
    assert [one["embedding"] for one in said["data"]] == vectors.tolist()
