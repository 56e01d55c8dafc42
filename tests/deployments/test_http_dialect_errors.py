"""Every error comes in the shape that its route's clients read."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from deployments.config import AuthArgs, LimitsArgs
from deployments.ingress import create_api
from pipeline.errors import DeadlineExceeded, OnepassError, Overloaded, Unavailable
from tests.deployments.dialects import DIALECTS, Body, Dialect
from tests.deployments.gateway import RecordingGateway, serving

ID = {"X-Request-Id": "mine"}
each_dialect = pytest.mark.parametrize(
    "dialect", DIALECTS, ids=lambda one: f"{one.path} {one.texts}"
)


def native(kind: str, message: str, param: str | None = None) -> Body:
    error = {"type": kind, "message": message, "param": param, "request_id": "mine"}
    return {"error": error, "message": message, "detail": message}


def openai(kind: str, code: str, message: str, param: str | None = None) -> Body:
    error = {"message": message, "type": kind, "param": param, "code": code, "request_id": "mine"}
    return {"error": error}


FAILURES: list[tuple[OnepassError, dict[str, Body]]] = [
    (
        Overloaded("full", None, 2),
        {
            "/v1/rerank": native("overloaded", "full"),
            "/v2/rerank": {"id": "mine", "message": "full"},
            "/rerank": {"error": "full", "error_type": "Overloaded", "detail": "full"},
            "/v1/ranking": {"error": "full", "detail": "full", "requestId": "mine"},
            "/score": openai("rate_limit_error", "overloaded", "full"),
            "/v1/score": openai("rate_limit_error", "overloaded", "full"),
        },
    ),
    (
        Unavailable("down"),
        {
            "/v1/rerank": native("unavailable", "down"),
            "/v2/rerank": {"id": "mine", "message": "down"},
            "/rerank": {"error": "down", "error_type": "Unhealthy", "detail": "down"},
            "/v1/ranking": {"error": "down", "detail": "down", "requestId": "mine"},
            "/score": openai("server_error", "unavailable", "down"),
            "/v1/score": openai("server_error", "unavailable", "down"),
        },
    ),
    (
        DeadlineExceeded("late"),
        {
            "/v1/rerank": native("deadline_exceeded", "late"),
            "/v2/rerank": {"id": "mine", "message": "late"},
            "/rerank": {"error": "late", "error_type": "Backend", "detail": "late"},
            "/v1/ranking": {"error": "late", "detail": "late", "requestId": "mine"},
            "/score": openai("server_error", "deadline_exceeded", "late"),
            "/v1/score": openai("server_error", "deadline_exceeded", "late"),
        },
    ),
]


@each_dialect
@pytest.mark.parametrize(("error", "bodies"), FAILURES, ids=lambda one: type(one).__name__)
async def test_a_failure_has_its_status_and_the_shape_of_its_route(
    client: httpx.AsyncClient,
    gateway: RecordingGateway,
    dialect: Dialect,
    error: OnepassError,
    bodies: dict[str, Body],
) -> None:
    gateway.error = error
    response = await client.post(dialect.path, json=dialect.body("q", ["a"]), headers=ID)
    assert (response.status_code, response.json()) == (error.status, bodies[dialect.path])
    assert response.headers["X-Request-Id"] == "mine"
    assert response.headers.get("Retry-After") == ("2" if error.status == 429 else None)


@each_dialect
async def test_an_error_of_ours_is_a_500_without_details(
    client: httpx.AsyncClient,
    gateway: RecordingGateway,
    dialect: Dialect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway.error = ZeroDivisionError("secret detail")
    with caplog.at_level(logging.CRITICAL):
        response = await client.post(dialect.path, json=dialect.body("q", ["a"]), headers=ID)
    assert response.status_code == 500
    assert "internal error" in response.text
    assert "secret detail" not in response.text


def sent(client: httpx.AsyncClient, path: str, body: bytes, kind: str) -> Any:
    return client.post(path, content=body, headers={"Content-Type": kind, **ID})


INVALID: dict[str, Body] = {
    "/v1/rerank": {
        **native("malformed_request", "the body is not valid JSON", "body"),
        "message": "body: the body is not valid JSON",
        "detail": "body: the body is not valid JSON",
    },
    "/v2/rerank": {"id": "mine", "message": "body: the body is not valid JSON"},
    "/rerank": {
        "error": "body: the body is not valid JSON",
        "error_type": "Validation",
        "detail": "body: the body is not valid JSON",
    },
    "/v1/ranking": {
        "error": "body: the body is not valid JSON",
        "detail": "body: the body is not valid JSON",
        "requestId": "mine",
    },
    "/v1/embeddings": openai(
        "invalid_request_error", "malformed_request", "body: the body is not valid JSON", "body"
    ),
}


@pytest.mark.parametrize(("path", "body"), INVALID.items())
async def test_a_body_that_is_no_json_is_400(
    client: httpx.AsyncClient, path: str, body: Body
) -> None:
    response = await sent(client, path, b"{", "application/json")
    assert (response.status_code, response.json()) == (400, body)


async def test_what_is_refused_before_a_route_is_reached_has_its_shape_too(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    large = await sent(client, "/rerank", b" " * 20_001, "application/json")
    assert large.status_code == 413
    assert large.json()["error"] == "body: the body exceeds 20000 bytes"
    plain = await sent(client, "/v2/rerank", b"{}", "text/plain")
    assert plain.status_code == 422
    assert plain.json()["message"].startswith("Content-Type: ")
    async with serving(gateway, host="10.0.0.7") as remote:
        stranger = await remote.post("/v1/embeddings", json={"input": "a"})
    assert stranger.status_code == 401
    assert stranger.headers["WWW-Authenticate"] == "Bearer"
    assert stranger.json()["error"]["type"] == "authentication_error"


async def test_a_wrong_method_names_the_right_one(client: httpx.AsyncClient) -> None:
    response = await client.get("/v2/rerank", headers=ID)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert response.json() == {"id": "mine", "message": "Method Not Allowed"}


async def test_below_a_route_prefix_the_shapes_are_the_same(gateway: RecordingGateway) -> None:
    app = create_api(gateway, LimitsArgs(), AuthArgs())
    transport = httpx.ASGITransport(app, root_path="/rag", client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.post("/rag/v2/rerank", json={"query": "q"}, headers=ID)
    assert response.json() == {"id": "mine", "message": "documents: Field required"}


@each_dialect
async def test_no_value_of_a_request_is_echoed(client: httpx.AsyncClient, dialect: Dialect) -> None:
    for body in (
        dialect.body("q", ["S3CRET" * 400, 5]),
        dialect.body("S3CRET" * 100, ["a"]),
        {**dialect.body("q", ["a"]), "truncate": "S3CRET", "use_activation": "S3CRET"},
    ):
        response = await client.post(dialect.path, json=body)
        assert "S3CRET" not in response.text
