"""The frame around the application, called as a server would."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from deployments.auth import ANONYMOUS, Principal
from deployments.config import AuthArgs
from deployments.middleware import RequestFrame
from tests.deployments.keyed import KEYED


class Server:
    """Sends one request through a frame; notes what the application behind it saw."""

    def __init__(self, auth: AuthArgs, **options: Any) -> None:
        self.frame = RequestFrame(self.application, body_bytes=100, auth=auth, **options)
        self.reads = 0
        self.seen: list[Scope] = []
        self.sent: list[Message] = []
        self.body = [b"{}"]

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive(self) -> Message:
        self.reads += 1
        return {"type": "http.request", "body": self.body.pop(0), "more_body": bool(self.body)}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def ask(
        self, headers: Mapping[str, str], client: tuple[str, int] | None = ("127.0.0.1", 1)
    ) -> tuple[int, dict[str, str]]:
        """Ask for a search; return the answer's status and headers."""
        sent = {"content-type": "application/json", **headers}
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/search",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": client,
        }
        await self.frame(scope, self.receive, self.send)
        start = self.sent[0]
        return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}


@pytest.mark.parametrize(
    ("auth", "headers"),
    [(AuthArgs(), {"via": "1.1 proxy"}), (KEYED, {}), (KEYED, {"x-api-key": "op_nobody"})],
)
async def test_of_who_is_not_served_nothing_is_read(
    auth: AuthArgs, headers: dict[str, str]
) -> None:
    server = Server(auth)
    status, answered = await server.ask({**headers, "content-length": "999999"})
    assert (status, server.reads, server.seen) == (401, 0, [])
    assert answered["www-authenticate"] == "Bearer"
    assert answered["x-request-id"]


async def test_who_asks_is_found_out_before_how() -> None:
    wrong = {"content-type": "text/plain", "content-length": "999999"}
    assert (await Server(KEYED).ask(wrong))[0] == 401
    assert (await Server(KEYED).ask({**wrong, "x-api-key": "op_reader"}))[0] == 422


@pytest.mark.parametrize(
    ("auth", "principal"), [(AuthArgs(), ANONYMOUS), (KEYED, Principal("acme", "write"))]
)
async def test_who_asks_goes_along_with_the_request(auth: AuthArgs, principal: Principal) -> None:
    server = Server(auth)
    status, _ = await server.ask({"authorization": "Bearer op_writer"})
    assert (status, server.seen[0]["state"]["principal"]) == (200, principal)


async def test_a_client_without_an_address_is_not_on_this_machine() -> None:
    assert (await Server(AuthArgs()).ask({}, client=None))[0] == 401


async def test_behind_haproxy_a_loopback_address_lets_nobody_in() -> None:
    assert (await Server(AuthArgs(), sees_clients=False).ask({}))[0] == 401
    opened = AuthArgs(allow_anonymous=True)
    assert (await Server(opened, sees_clients=False).ask({}))[0] == 200


@pytest.mark.parametrize(
    ("given", "kept"),
    [("mine-1", True), ("x" * 128, True), ("x" * 129, False), ("é", False), ("a\tb", False)],
)
async def test_a_request_id_is_kept_if_it_may_stand_in_a_header(given: str, kept: bool) -> None:
    _, headers = await Server(AuthArgs()).ask({"x-request-id": given})
    assert (headers["x-request-id"] == given) is kept


async def test_the_id_is_left_to_a_proxy_that_sets_it() -> None:
    _, headers = await Server(AuthArgs(), names_request=False).ask({"x-request-id": "mine"})
    assert "x-request-id" not in headers
    assert headers["server-timing"].startswith("total;dur=")


async def test_a_body_in_pieces_is_read_no_further_than_the_limit() -> None:
    server = Server(AuthArgs())
    server.body = [b"x" * 40] * 9
    assert (await server.ask({}))[0] == 413
    assert server.reads == 3


async def test_an_answer_that_had_begun_is_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Server):
        async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
            await super().application(scope, receive, send)
            raise ZeroDivisionError("late")

    caplog.set_level(logging.ERROR)
    server = Failing(AuthArgs())
    with pytest.raises(ZeroDivisionError):
        await server.ask({})
    assert [message["type"] for message in server.sent] == [
        "http.response.start",
        "http.response.body",
    ]
    assert "POST /v1/search failed" in caplog.text
