"""Searching over HTTP, and what all routes share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from deployments.config import AuthArgs
from pipeline.errors import NotFound, Overloaded, Unavailable
from tests.deployments.gateway import RecordingGateway, error_of, serving


async def test_a_search_reaches_the_gateway_with_what_was_given(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    body = {"query": "q", "top_k": 5, "corrective": {"fill": True}, "rerank": {"top_n": None}}
    response = await client.post(
        "/v1/search", json=body, headers={"X-Request-Timeout-Ms": "250", "X-Request-Id": "mine"}
    )
    assert response.status_code == 200
    given = {
        "query": "q",
        "corpus": "default",
        "top_k": 5,
        "corrective": {"fill": True},
        "rerank": {"top_n": None},
    }
    assert gateway.calls == [("search", "default", given, 250)]
    assert response.headers["X-Request-Id"] == "mine"
    assert response.headers["Server-Timing"].startswith("retrieve;dur=1.2, total;dur=")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": " \n"}, "query"),
        ({"query": 5}, "query"),
        ({"query": None}, "query"),
        ({"query": ["q"]}, "query"),
        ({"query": "q" * 101}, "query"),
        ({"query": "q", "corpus": "../etc"}, "corpus"),
        ({"query": "q", "corpus": ""}, "corpus"),
        ({"query": "q", "top_k": "3"}, "top_k"),
        ({"query": "q", "top_k": True}, "top_k"),
        ({"query": "q", "top_k": 3.5}, "top_k"),
        ({"query": "q", "top_k": 0}, "top_k"),
        ({"query": "q", "top_k": 1001}, "top_k"),
        ({"query": "q", "top_k": 10**30}, "top_k"),
        ({"query": "q", "topk": 3}, "topk"),
        ({"query": "q", "rerank": {"topn": 3}}, "rerank.topn"),
        ({"query": "q", "rerank": {"top_n": 0}}, "rerank.top_n"),
        ({"query": "q", "rerank": {"top_n": True}}, "rerank.top_n"),
        ({"query": "q", "rerank": "yes"}, "rerank"),
        ({"query": "q", "corrective": {"correct_threshold": 1.5}}, "corrective.correct_threshold"),
        ({"query": "q", "corrective": 1}, "corrective"),
        ({"query": "q", "filter": {"field": "year", "gte": None}}, "filter.gte"),
        ({"query": "q", "filter": {"nope": 1}}, "filter.nope"),
        ({"query": "q", "filter": []}, "filter"),
        ({"query": "q", "include_trace": "yes"}, "include_trace"),
        ([], "body"),
        ("q", "body"),
        (None, "body"),
    ],
)
async def test_a_bad_search_is_422_naming_the_field(
    client: httpx.AsyncClient, gateway: RecordingGateway, body: Any, param: str
) -> None:
    response = await client.post(
        "/v1/search", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert error_of(response) == (422, "invalid_input", param)
    assert gateway.calls == []


async def test_an_unknown_field_names_the_nearest_known_one(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/search", json={"query": "q", "topk": 3})
    assert response.json()["error"]["message"] == "unknown field; did you mean top_k?"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"query": "q",}',
        b"\xff\xfe",
        b'{"query": "\\ud800"}',
        b'{"query": "q", "top_k": NaN}',
        b'{"query": "q", "top_k": Infinity}',
        b"[" * 5000,
        b'{"query": "q", "top_k": ' + b"9" * 5000 + b"}",
        b'{"query": "q", "filter": ' + b'{"not": ' * 200 + b"1" + b"}" * 201,
    ],
)
async def test_garbage_is_a_clear_4xx(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post(
        "/v1/search", content=body, headers={"Content-Type": "application/json"}
    )
    status, kind, _ = error_of(response)
    assert (status, kind) in {(400, "malformed_request"), (422, "invalid_input")}


async def test_no_value_of_the_request_is_echoed(client: httpx.AsyncClient) -> None:
    secret = "S3CRET"
    for body in (
        {"query": "q", "top_k": secret},
        {"query": "q", "corpus": f"/{secret}"},
        {"query": "q", "rerank": secret},
        {"query": "q", "filter": {"field": "a", "eq": [secret]}},
    ):
        response = await client.post("/v1/search", json=body)
        assert response.status_code == 422
        assert secret not in response.text


async def test_a_body_over_the_limit_is_413_with_and_without_a_length(
    client: httpx.AsyncClient,
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 1000

    headers = {"Content-Type": "application/json"}
    for content in (b" " * 20_001, chunks()):
        response = await client.post("/v1/search", content=content, headers=headers)
        assert error_of(response) == (413, "payload_too_large", "body")
        assert "20000" in response.json()["error"]["message"]


async def test_a_body_that_is_not_declared_json_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/feedback", content=b"{}")
    assert error_of(response) == (422, "invalid_input", "Content-Type")


async def test_only_this_machine_is_served_unless_anonymous_is_allowed(
    gateway: RecordingGateway,
) -> None:
    async with serving(gateway, host="10.0.0.7") as remote:
        response = await remote.post("/v1/search", json={"query": "q"})
        assert error_of(response) == (401, "unauthorized", None)
    async with serving(gateway, host="10.0.0.7") as remote:
        for probe in ("/healthz", "/readyz"):  # a cluster's own, which have no key
            assert (await remote.get(probe)).status_code == 200
    async with serving(gateway, auth=AuthArgs(allow_anonymous=True), host="10.0.0.7") as remote:
        assert (await remote.post("/v1/search", json={"query": "q"})).status_code == 200


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (NotFound("no such corpus", "corpus"), 404, "not_found"),
        (Unavailable("down"), 503, "unavailable"),
        (ZeroDivisionError("secret detail"), 500, "internal"),
    ],
)
async def test_errors_become_http_without_details(
    client: httpx.AsyncClient, gateway: RecordingGateway, error: Exception, status: int, kind: str
) -> None:
    gateway.error = error
    response = await client.post("/v1/search", json={"query": "q"})
    assert error_of(response)[:2] == (status, kind)
    assert "secret detail" not in response.text


async def test_overload_says_when_to_come_back(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    gateway.error = Overloaded("full", None, 2)
    response = await client.post("/v1/search", json={"query": "q"})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "2")


async def test_an_unknown_route_and_a_wrong_method_have_the_error_shape(
    client: httpx.AsyncClient,
) -> None:
    assert error_of(await client.get("/v1/nothing"))[:2] == (404, "not_found")
    assert error_of(await client.get("/v1/search"))[:2] == (405, "method_not_allowed")


@pytest.mark.parametrize("path", ["/v1/search/", "/v1/corpora/", "/v1/corpora/c/", "/healthz/"])
async def test_a_slash_too_many_is_404_and_no_redirect(
    client: httpx.AsyncClient, path: str
) -> None:
    for method in ("GET", "POST"):
        response = await client.request(method, path, json={"query": "q"})
        assert error_of(response) == (404, "not_found", None)
        assert "Location" not in response.headers


async def test_a_wrong_method_is_told_all_the_right_ones(client: httpx.AsyncClient) -> None:
    for path, methods in (
        ("/v1/search", "POST"),
        ("/v1/corpora/c", "DELETE, GET"),
        ("/v1/corpora/c/documents", "GET, POST, PUT"),
        ("/v1/corpora/c/documents/a/b.md", "DELETE, GET"),
    ):
        response = await client.options(path)
        assert (response.status_code, response.headers["Allow"]) == (405, methods)
    assert "Allow" not in (await client.get("/v1/nothing")).headers


async def test_readiness_is_503_until_ready_and_liveness_is_200(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    gateway.ready = False
    assert (await client.get("/healthz")).status_code == 200
    starting = await client.get("/readyz")
    assert (starting.status_code, starting.json()["degraded"]) == (503, ["Scorer"])
    gateway.ready = True
    assert (await client.get("/readyz")).status_code == 200


async def test_a_conversation_is_handed_over_and_its_turns_are_bounded(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    turns = [{"role": "user", "content": "Who runs it?"}, {"role": "assistant", "content": "Ada."}]
    response = await client.post("/v1/search", json={"query": "And since when?", "history": turns})
    assert response.status_code == 200
    ((_, _, given, _),) = gateway.calls
    assert given["history"] == turns
    turns[1]["content"] = "x" * 101
    response = await client.post("/v1/search", json={"query": "q", "history": turns})
    assert error_of(response) == (422, "invalid_input", "history[1].content")


async def test_times_in_the_status_are_text(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/status")
    assert response.json() == {"at": "2026-01-01T00:00:00+00:00"}
