"""What happens around every request: its id, its size, who may ask, how long it took."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.api import ndjson
from deployments.api.wire import CONTROL
from deployments.auth import OPEN_PATHS, PROBES, identify
from deployments.config import AuthArgs
from deployments.errors import answer, path_within, unforeseen
from pipeline.errors import InvalidInput, OnepassError, PayloadTooLarge

logger = logging.getLogger(__name__)

MAX_REQUEST_ID = 128
JSON = "application/json"


@dataclass
class RequestFrame:
    """Sets X-Request-Id and Server-Timing, finds out who asks before anything else is read, and
    reads the body whole, so that one over the limit is refused before it is parsed. Bulk ingest
    reads its own as a stream.

    Ray Serve's own proxy adds the id to the answer after this, and then a second one would be
    one too many: `names_request` false leaves it to the proxy. Behind another proxy the client's
    address is not known: then `sees_clients` is false.
    """

    app: ASGIApp
    body_bytes: int
    auth: AuthArgs
    names_request: bool = True
    sees_clients: bool = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = accepted_id(headers.get("x-request-id")) or uuid.uuid4().hex
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state["request_id"] = request_id
        framed = FramedSend(send, state, self.names_request)
        try:
            self._identify(scope, headers)
            check_path(scope["path"])
            is_bulk = ndjson.is_bulk(scope["method"], path_within(scope))
            check_content_type(scope["method"], headers, ndjson.MEDIA_TYPE if is_bulk else JSON)
            if not is_bulk:
                receive = replay(await read_body(receive, headers, self.body_bytes), receive)
            await self.app(scope, receive, framed)
        except OnepassError as error:
            await answer(path_within(scope), request_id, error)(scope, receive, framed)
        except Exception:  # the outermost boundary: a 500 without details, and the log has them
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if framed.began:
                raise
            await unforeseen(path_within(scope), request_id)(scope, receive, framed)

    def _identify(self, scope: Scope, headers: Headers) -> None:
        """Put who asks on the request's state; open paths do without."""
        if path_within(scope) in (OPEN_PATHS if self.auth.api_keys else PROBES):
            return
        client = scope.get("client")
        host = client[0] if client else None
        scope["state"]["principal"] = identify(self.auth, headers, host, self.sees_clients)


class FramedSend:
    """Sends an answer with the request's id and the times of its stages."""

    def __init__(self, send: Send, state: MutableMapping[str, Any], names_request: bool) -> None:
        self.send = send
        self.state = state
        self.names_request = names_request
        self.started = time.perf_counter()
        self.began = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            headers = MutableHeaders(scope=message)
            headers["Server-Timing"] = self.timing()
            if self.names_request:
                headers["X-Request-Id"] = self.state["request_id"]
        await self.send(message)

    def timing(self) -> str:
        total_ms = (time.perf_counter() - self.started) * 1e3
        stages = {**self.state.get("timings_ms", {}), "total": total_ms}
        return ", ".join(f"{stage};dur={ms:.1f}" for stage, ms in stages.items())


def accepted_id(value: str | None) -> str | None:
    """A client's request id, if it is one that may go into a header and a log line."""
    if value and len(value) <= MAX_REQUEST_ID and value.isascii() and value.isprintable():
        return value
    return None


def check_path(path: str) -> None:
    """No name holds a control character, and a line feed at the end would go unseen by routes."""
    if CONTROL.search(path):
        raise InvalidInput("must hold no control characters", "path")


def check_content_type(method: str, headers: Headers, expected: str) -> None:
    """Bodies are JSON and say so: what a web page can send unasked is never acted upon."""
    if method not in ("POST", "PUT", "PATCH"):
        return
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != expected:
        raise InvalidInput(f"the body must be sent as {expected}", "Content-Type")


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """Read the body, also a chunked one without a length; raise PayloadTooLarge over `limit`."""
    declared = headers.get("content-length", "")
    too_large = PayloadTooLarge(f"the body exceeds {limit} bytes", "body")
    if declared.isascii() and declared.isdigit() and float(declared) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large
        chunks.append(chunk)
        more = message.get("more_body", False)
    return b"".join(chunks)


def replay(body: bytes, receive: Receive) -> Receive:
    """Give the body to the application once, then what the client does next."""
    waiting = [body]

    async def receive_again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again
