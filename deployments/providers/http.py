"""JSON over HTTP to a service outside: tried again where that may help, bounded in time and size.

No message holds a body, a key or a URL: they go to clients and into logs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from deployments.budget import left_s
from deployments.provider_options import ServiceArgs
from pipeline.errors import DeadlineExceeded, Unavailable

# A thousand results with their texts are far below.
ANSWER_BYTES = 16 * 2**20
# The longest first wait; each further one may be twice as long.
BACKOFF_S = 0.2
REFUSED_KEY = (401, 403)
TOO_BUSY = (408, 429)
REFUSED_REQUEST = (400, 413, 422)
# In a queue for connections the calls to a service that hangs would hold up all others.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)


class Refused(Unavailable):
    """The service would not take this request; that says nothing of the next one."""


class Http:
    """POSTs JSON for several services; its one client is made on the loop that first needs it."""

    def __init__(self, backoff_s: float = BACKOFF_S) -> None:
        self.backoff_s = backoff_s
        self._client: httpx.AsyncClient | None = None

    async def post(
        self,
        service: ServiceArgs,
        path: str,
        body: Any,
        timeout_s: float,
        max_bytes: int = ANSWER_BYTES,
    ) -> Any:
        """Return the JSON that the service answers with.

        A try has at most `service.timeout_ms`; all tries and the waits between them end within
        `timeout_s`. Raises DeadlineExceeded when that is over, Refused for a status that finds
        fault with the request, and Unavailable for any other error status, a broken connection,
        and an answer that is no JSON or has more than `max_bytes`.
        """
        deadline = time.monotonic() + timeout_s
        call = prepare(service, path, body, max_bytes)
        tries = 0
        while True:
            try:
                limit_s = left_s(deadline, service.timeout_ms / 1000)
                return await asyncio.wait_for(self._try(call), limit_s)
            except asyncio.TimeoutError:
                failure = Transient(f"gave no answer in {service.timeout_ms} ms")
            except Transient as error:
                failure = error
            if left_s(deadline) <= 0:
                raise DeadlineExceeded(f"{call.label} gave no answer in time")
            # Full jitter: clients that failed together do not come back together.
            pause_s = max(failure.wait_s, random.uniform(0, self.backoff_s * 2**tries))
            if tries == service.retries or pause_s >= left_s(deadline):
                raise Unavailable(f"{call.label} {failure}")
            tries += 1
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _try(self, call: Call) -> Any:
        client = self._open()
        try:
            async with client.stream(
                "POST", call.url, content=call.content, headers=call.headers
            ) as response:
                check_status(call, response)
                content = await read_content(call, response)
        except httpx.ConnectError:
            raise Transient("cannot be reached") from None
        except httpx.TransportError:
            raise Transient("broke the connection") from None
        except (httpx.HTTPError, httpx.InvalidURL):
            raise Unavailable(f"{call.label} cannot be asked, or its answer be read") from None
        return parse(call, content)

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            # It writes whole URLs, with their queries, at INFO.
            logging.getLogger("httpx").setLevel(logging.WARNING)
            self._client = httpx.AsyncClient(timeout=None, follow_redirects=False, limits=LIMITS)
        return self._client


class Transient(Exception):
    """A failure that another try may mend, `wait_s` from now at the earliest."""

    def __init__(self, what: str, wait_s: float = 0.0) -> None:
        super().__init__(what)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it goes out, with each try anew."""

    label: str
    url: str
    content: bytes
    headers: dict[str, str]
    max_bytes: int


def prepare(service: ServiceArgs, path: str, body: Any, max_bytes: int) -> Call:
    # A lone surrogate, which UTF-8 cannot carry, must not fail the texts beside it.
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if service.api_key_env is not None:
        headers["Authorization"] = f"Bearer {read_key(service.label, service.api_key_env)}"
    return Call(service.label, join_url(service.base_url, path), content, headers, max_bytes)


def read_key(label: str, variable: str) -> str:
    """Read the key at each call, so that a new one needs no restart of ours."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise Unavailable(f"{label} needs the environment variable {variable}, which is not set")
    if not (key.isascii() and key.isprintable()):
        raise Unavailable(f"{label}: the environment variable {variable} holds no API key")
    return key


def join_url(base_url: str, path: str) -> str:
    """Put the path before the base's query, which some gateways need."""
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}" if path else base_url


def check_status(call: Call, response: httpx.Response) -> None:
    status = response.status_code
    if response.is_success:
        return
    if status in REFUSED_KEY:
        asks = "refused the API key" if "Authorization" in call.headers else "asks for an API key"
        raise Unavailable(f"{call.label} {asks} ({status})")
    if status in TOO_BUSY or response.is_server_error:
        raise Transient(f"answered {status}", retry_after_s(response.headers))
    kind = Refused if status in REFUSED_REQUEST else Unavailable
    raise kind(f"{call.label} answered {status}")


def retry_after_s(headers: httpx.Headers) -> float:
    """Return how many seconds the service asks to be left alone, 0 if it does not say.

    Retry-After is a number of seconds or an HTTP date (RFC 9110, 10.2.3).
    """
    asked = headers.get("Retry-After", "").strip()
    if asked.isascii() and asked.isdecimal():
        return float(asked)
    try:
        date = parsedate_to_datetime(asked)
    except (ValueError, OverflowError):
        return 0.0
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max((date - datetime.now(timezone.utc)).total_seconds(), 0.0)


async def read_content(call: Call, response: httpx.Response) -> bytes:
    """Read the body as it comes, so that one too long is given up and not held."""
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > call.max_bytes:
            raise Unavailable(f"{call.label} answered with more than {call.max_bytes} bytes")
    return bytes(content)


def parse(call: Call, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Unavailable(f"{call.label} answered with what is no JSON") from None
