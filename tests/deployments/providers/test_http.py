"""Asking a service outside: when it is tried again, when given up, and what errors say."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import httpx
import pytest

from deployments.provider_options import ServiceArgs, WebSearchArgs
from deployments.providers.http import Http, Refused, join_url, retry_after_s
from pipeline.errors import DeadlineExceeded, Unavailable
from tests.deployments.providers.service import Reply, Service

KEY = "sk-secret-of-ours"


@pytest.fixture
def args(service: Service) -> ServiceArgs:
    return ServiceArgs(base_url=service.url)


async def message_of(http: Http, args: ServiceArgs, timeout_s: float = 30.0) -> str:
    with pytest.raises(Unavailable) as caught:
        await http.post(args, "/rerank", {"query": "q"}, timeout_s)
    return caught.value.message


async def test_json_goes_out_and_comes_back(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    service.says(Reply({"results": []}))
    assert await http.post(args, "/rerank", {"query": "größer"}, 30) == {"results": []}
    (asked,) = service.asked
    assert (asked.path, asked.body) == ("/rerank", {"query": "größer"})
    assert asked.headers["Content-Type"] == "application/json"
    assert "Authorization" not in asked.headers


async def test_a_lone_surrogate_does_not_fail_the_call(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    await http.post(args, "/rerank", {"texts": ["a\ud800b", "c"]}, 30)
    assert service.bodies == [{"texts": ["a?b", "c"]}]


async def test_the_base_keeps_its_own_path_and_query(service: Service, http: Http) -> None:
    args = ServiceArgs(base_url=f"{service.url}/team/?api-version=3")
    await http.post(args, "/rerank", {}, 30)
    assert service.asked[0].path == "/team/rerank?api-version=3"


def test_no_path_leaves_the_address_as_it_is() -> None:
    assert join_url("http://x/search/?a=1", "") == "http://x/search/?a=1"
    assert join_url("http://x/", "/v1/rerank") == "http://x/v1/rerank"


# --- tries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_service_that_is_busy_or_failing_is_asked_again(
    service: Service, http: Http, args: ServiceArgs, status: int
) -> None:
    service.says(Reply(status=status), Reply(status=status), Reply([1]))
    assert await http.post(args, "/rerank", {"query": "q"}, 30) == [1]
    assert service.bodies == [{"query": "q"}] * 3


async def test_a_429_with_retry_after_is_asked_again(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    service.says(Reply(status=429, headers={"Retry-After": "0"}), Reply([1]))
    assert await http.post(args, "/rerank", {}, 30) == [1]


async def test_a_broken_connection_is_made_again(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    service.says(Reply(breaks=True), Reply([1]))
    assert await http.post(args, "/rerank", {}, 30) == [1]


async def test_tries_end(service: Service, http: Http) -> None:
    service.says(Reply({"results": [{"index": 0, "relevance_score": 1.0}]}, status=503))
    args = ServiceArgs(base_url=service.url, retries=3)
    assert await message_of(http, args) == "the service answered 503"
    assert len(service.asked) == 4


@pytest.mark.parametrize("status", [301, 307, 400, 404, 413, 422])
async def test_what_another_try_cannot_mend_is_tried_once(
    service: Service, http: Http, args: ServiceArgs, status: int
) -> None:
    service.says(Reply(status=status, headers={"Location": f"{service.url}/elsewhere"}))
    assert await message_of(http, args) == f"the service answered {status}"
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("status", "is_refused"), [(400, True), (413, True), (422, True), (401, False), (404, False)]
)
async def test_a_request_that_is_found_fault_with_is_told_from_a_service_that_fails(
    service: Service, http: Http, args: ServiceArgs, status: int, is_refused: bool
) -> None:
    service.says(Reply(status=status))
    with pytest.raises(Unavailable) as caught:
        await http.post(args, "/rerank", {}, 30)
    assert isinstance(caught.value, Refused) is is_refused


async def test_calls_that_hang_hold_up_no_others(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    """More of them hang than an HTTP client has connections where it bounds them."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    hung = ServiceArgs(base_url=url, timeout_ms=60_000)
    hanging = [asyncio.create_task(http.post(hung, "/rerank", {}, 60)) for _ in range(120)]
    service.says(Reply([1]))
    await asyncio.sleep(0)
    assert await http.post(args, "/rerank", {}, 5) == [1]
    for call in hanging:
        call.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    server.close()
    await server.wait_closed()


async def test_a_wait_longer_than_the_time_left_is_not_begun(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    service.says(Reply(status=429, headers={"Retry-After": "3600"}), Reply([1]))
    assert await message_of(http, args) == "the service answered 429"
    assert len(service.asked) == 1


async def test_a_slow_try_is_given_up_for_another(service: Service, http: Http) -> None:
    service.says(Reply(hangs=True), Reply([1]))
    args = ServiceArgs(base_url=service.url, timeout_ms=300)
    assert await http.post(args, "/rerank", {}, 30) == [1]


async def test_a_service_that_is_always_slow_is_unavailable(service: Service, http: Http) -> None:
    service.says(Reply(hangs=True))
    args = ServiceArgs(base_url=service.url, timeout_ms=50, retries=1)
    assert await message_of(http, args) == "the service gave no answer in 50 ms"


async def test_the_time_for_all_tries_ends_a_slow_one(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    service.says(Reply(hangs=True))
    with pytest.raises(DeadlineExceeded, match="the service gave no answer in time"):
        await http.post(args, "/rerank", {}, 0.2)
    assert len(service.asked) <= 1


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_without_time_nothing_is_asked(
    service: Service, http: Http, args: ServiceArgs, timeout_s: float
) -> None:
    with pytest.raises(DeadlineExceeded):
        await http.post(args, "/rerank", {}, timeout_s)
    assert service.asked == []


@pytest.mark.parametrize(
    ("asked", "seconds"), [("", 0.0), ("7", 7.0), (" 7 ", 7.0), ("-1", 0.0), ("soon", 0.0)]
)
def test_retry_after_is_read_as_seconds(asked: str, seconds: float) -> None:
    assert retry_after_s(httpx.Headers({"Retry-After": asked})) == seconds


@pytest.mark.parametrize(
    "asked",
    [
        "Mon, 01 Jan 2024 00:00:00 +999999999999999999",
        "Mon, 01 Jan 2024 00:00:00 +9999",
        "Mon, 99999999999999999999 Jan 2024 00:00:00 GMT",
        "Mon, 01 Jan 99999 00:00:00 GMT",
    ],
)
def test_an_absurd_date_asks_for_no_wait(asked: str) -> None:
    assert retry_after_s(httpx.Headers({"Retry-After": asked})) == 0.0


def test_retry_after_is_read_as_a_date() -> None:
    now = datetime.now(timezone.utc)
    later, earlier = (
        httpx.Headers({"Retry-After": format_datetime(now + timedelta(hours=hours), usegmt=True)})
        for hours in (1, -1)
    )
    assert 3500 < retry_after_s(later) <= 3600
    assert retry_after_s(earlier) == 0.0


# --- answers that are none -----------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"<html>Bad gateway</html>", b'{"results": [', b"", b"\xff\xfe\x00", b"[" * 100_000],
    ids=["html", "cut off", "empty", "no text", "nested too deep"],
)
async def test_an_answer_that_is_no_json_is_no_success(
    service: Service, http: Http, args: ServiceArgs, content: bytes
) -> None:
    service.says(Reply(content=content, headers={"Content-Type": "text/html"}))
    assert await message_of(http, args) == "the service answered with what is no JSON"


@pytest.mark.parametrize("is_packed", [False, True])
async def test_an_answer_above_the_bound_is_refused(
    service: Service, http: Http, args: ServiceArgs, is_packed: bool
) -> None:
    content = b'"' + b"x" * 2000 + b'"'
    packed = Reply(content=gzip.compress(content), headers={"Content-Encoding": "gzip"})
    service.says(packed if is_packed else Reply(content=content))
    assert await http.post(args, "/rerank", {}, 30, max_bytes=2002) == "x" * 2000
    with pytest.raises(Unavailable, match="the service answered with more than 2001 bytes"):
        await http.post(args, "/rerank", {}, 30, max_bytes=2001)


async def test_an_answer_packed_wrongly_is_no_success(
    service: Service, http: Http, args: ServiceArgs
) -> None:
    service.says(Reply(content=b"{}", headers={"Content-Encoding": "gzip"}))
    assert "its answer be read" in await message_of(http, args)


async def test_nobody_listening_is_unavailable(http: Http) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        args = ServiceArgs(base_url=url, retries=1)
        assert await message_of(http, args) == "the service cannot be reached"


async def test_an_address_that_is_none_is_unavailable(http: Http) -> None:
    assert "cannot be asked" in await message_of(http, ServiceArgs(base_url="http://[::1"))


# --- keys ----------------------------------------------------------------------------------


async def test_the_key_is_read_from_the_environment_at_each_call(
    service: Service, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ServiceArgs(base_url=service.url, api_key_env="OUR_KEY")
    for key in ("one", "two\n"):
        monkeypatch.setenv("OUR_KEY", key)
        await http.post(args, "/rerank", {}, 30)
    sent = [asked.headers["Authorization"] for asked in service.asked]
    assert sent == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "the service needs the environment variable OUR_KEY, which is not set"),
        (" ", "the service needs the environment variable OUR_KEY, which is not set"),
        ("a\nb", "the service: the environment variable OUR_KEY holds no API key"),
        ("ключ", "the service: the environment variable OUR_KEY holds no API key"),
    ],
)
async def test_without_its_key_a_service_is_not_asked(
    service: Service,
    http: Http,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
    message: str,
) -> None:
    monkeypatch.delenv("OUR_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("OUR_KEY", key)
    args = ServiceArgs(base_url=service.url, api_key_env="OUR_KEY")
    assert await message_of(http, args) == message
    assert service.asked == []


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_called_so(
    service: Service, http: Http, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)
    service.says(Reply({"message": f"no such key {KEY}"}, status=status))
    keyed = ServiceArgs(base_url=service.url, api_key_env="OUR_KEY")
    assert await message_of(http, keyed) == f"the service refused the API key ({status})"
    bare = ServiceArgs(base_url=service.url)
    assert await message_of(http, bare) == f"the service asks for an API key ({status})"
    assert len(service.asked) == 2


async def test_logs_hold_no_address(
    service: Service, http: Http, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await http.post(WebSearchArgs(base_url=f"{service.url}/?key={KEY}"), "", {}, 30)
    assert service.asked[0].path == f"/?key={KEY}"
    assert KEY not in caplog.text


async def test_a_closed_client_opens_again(service: Service, args: ServiceArgs) -> None:
    http = Http()
    await http.close()
    await http.post(args, "/rerank", {}, 30)
    await http.close()
    await http.post(args, "/rerank", {}, 30)
    await http.close()
    assert len(service.asked) == 2
