"""Every route there is, asked by everybody who might."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import Route

from deployments.auth import OPEN_PATHS, digest_of
from deployments.config import AuthArgs, LimitsArgs
from deployments.ingress import create_api
from tests.deployments.gateway import RecordingGateway
from tests.deployments.keyed import HOLDERS, KEYED, bearer, keyed_client

METHODS = {"get", "put", "post", "delete", "patch"}


def all_routes() -> Iterator[tuple[str, str]]:
    """Yield method and path of each route, its parameters filled."""
    app = create_api(RecordingGateway(), LimitsArgs(), KEYED)
    for template, item in app.openapi()["paths"].items():
        path = re.sub(r"\{\w+\}", "c", template)
        yield from ((method.upper(), path) for method in METHODS & item.keys())
    for route in app.routes:  # those that FastAPI adds, of which its document is silent
        if isinstance(route, Route):
            yield "GET", route.path


ROUTES = sorted(all_routes())
GUARDED = [route for route in ROUTES if route[1] not in OPEN_PATHS]


def role_needed(method: str, path: str) -> str:
    if path.startswith("/v1/admin/") or path == "/v1/status":
        return "admin"
    writes = method in {"PUT", "DELETE"} or (method, path[:11]) == ("POST", "/v1/corpora")
    return "write" if writes else "read"


async def ask(
    method: str, path: str, headers: dict[str, str], gateway: RecordingGateway | None = None
) -> Any:
    """Ask with a body that is right for no route."""
    content = b"{}" if method in {"POST", "PUT"} else None
    kind = "x-ndjson" if (method, path) == ("POST", "/v1/corpora/c/documents") else "json"
    async with keyed_client(gateway or RecordingGateway(), headers) as client:
        return await client.request(
            method, path, content=content, headers={"Content-Type": f"application/{kind}"}
        )


def test_the_walk_meets_the_routes_that_matter() -> None:
    assert not [path for _, path in ROUTES if "{" in path]
    assert {role_needed(*route) for route in GUARDED} == {"read", "write", "admin"}
    for known in ("/v1/search", "/v1/rerank", "/v2/rerank", "/rerank", "/v1/embeddings"):
        assert ("POST", known) in GUARDED


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_without_a_key_no_route_answers(
    method: str, path: str, gateway: RecordingGateway
) -> None:
    response = await ask(method, path, {}, gateway)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.headers["X-Request-Id"]
    assert gateway.calls == []


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
async def test_open_paths_need_no_key(path: str) -> None:
    assert (await ask("GET", path, {})).status_code == 200


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer op_nobody"},
        {"Authorization": "Bearer op_boss2"},
        {"Authorization": "Basic op_boss"},
        {"Authorization": f"Bearer {digest_of('op_boss')}"},
        {"X-API-Key": "op_nobody"},
    ],
)
async def test_a_wrong_key_is_no_key(
    method: str, path: str, headers: dict[str, str], gateway: RecordingGateway
) -> None:
    response = await ask(method, path, headers, gateway)
    assert (response.status_code, gateway.calls) == (401, [])


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(("name", "role"), [(name, role) for name, _, role in HOLDERS])
async def test_each_role_reaches_its_routes_and_no_others(
    method: str, path: str, name: str, role: str, gateway: RecordingGateway
) -> None:
    order = ["read", "write", "admin"]
    needed = role_needed(method, path)
    response = await ask(method, path, bearer(name), gateway)
    if order.index(role) >= order.index(needed):
        assert response.status_code in {200, 404, 422}
    else:
        assert (response.status_code, gateway.calls) == (403, [])
        assert f"role {needed}" in response.text


@pytest.mark.parametrize(
    "path",
    [
        "/v1/status/",
        "//v1/status",
        "/V1/status",
        "/docs/../v1/status",
        "/healthz/../v1/status",
        "/healthz/",
        "/healthz%2f..%2fv1/status",
        "/docs/oauth2-redirect",
        "/redoc",
        "/nothing",
        "/",
    ],
)
async def test_no_way_of_writing_a_path_goes_round_the_key(path: str) -> None:
    assert (await ask("GET", path, {})).status_code == 401


async def test_open_paths_are_found_under_a_route_prefix_and_no_others(
    gateway: RecordingGateway,
) -> None:
    app = create_api(gateway, LimitsArgs(), KEYED)
    statuses: dict[str, int] = {}
    for path in ("/rag/healthz", "/rag/v1/status", "/healthz/v1/status", "/ragged/healthz"):
        await app(scope_of(path, "/rag"), no_body, noting(statuses, path))
    assert statuses == {
        "/rag/healthz": 200,
        "/rag/v1/status": 401,
        "/healthz/v1/status": 401,
        "/ragged/healthz": 401,
    }


async def test_a_key_stands_in_no_answer_and_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    gateway = RecordingGateway()
    gateway.error = ZeroDivisionError("boom")
    texts = []
    for key in ("op_boss", "op_secret-but-wrong", "op_reader"):
        for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
            for method, path in (("POST", "/v1/search"), ("GET", "/v1/reports/latency")):
                response = await ask(method, path, headers, gateway)
                texts += [response.text, str(response.headers)]
    text = "".join(texts) + caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert "op_" not in text


@pytest.mark.parametrize(("name", "tenant"), [("boss", "acme"), ("other", "other")])
async def test_what_a_route_asks_for_is_asked_for_the_keys_tenant(
    name: str, tenant: str, gateway: RecordingGateway
) -> None:
    async with keyed_client(gateway, bearer(name)) as client:
        await client.post("/v1/search", json={"query": "q", "corpus": "c"})
        await client.delete("/v1/corpora/c/documents/d")
        await client.put("/v1/corpora/c/documents", json={"documents": [{"id": "d", "text": "t"}]})
        await client.delete("/v1/corpora/c")
        await client.get("/v1/corpora")
        await client.get("/v1/retrievals")
        await client.get("/v1/retrievals/r")
        await client.get("/v1/reports/latency")
        body = {"before": "2026-01-01T00:00:00Z", "dry_run": True}
        await client.post("/v1/admin/purge", json=body)
    asked = [tenant_in(call) for call in gateway.calls]
    assert asked == [tenant] * 9


async def test_without_keys_there_is_one_tenant(gateway: RecordingGateway) -> None:
    async with keyed_client(gateway, bearer("other"), AuthArgs()) as client:
        await client.post("/v1/search", json={"query": "q"})
    assert [tenant_in(call) for call in gateway.calls] == ["default"]


def tenant_in(call: tuple[Any, ...]) -> str:
    """The tenant of a call: in a window, in a corpus's key, or its first argument."""
    tenant: str = next((one.tenant for one in call if hasattr(one, "tenant")), call[1])
    return tenant


def scope_of(path: str, root_path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "root_path": root_path,
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1234),
        "server": ("test", 80),
        "scheme": "http",
    }


async def no_body() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def noting(statuses: dict[str, int], path: str) -> Any:
    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses[path] = message["status"]

    return send
