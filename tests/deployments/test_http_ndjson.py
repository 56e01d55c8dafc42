"""Bulk ingest over HTTP: a line for each line, in order, with bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from starlette.types import Message

from deployments.api import ndjson
from deployments.config import AuthArgs, LimitsArgs
from deployments.ingress import create_api
from pipeline.documents import CorpusKey, Document, PutResult
from pipeline.errors import Unavailable
from tests.deployments.gateway import LIMITS, RecordingGateway, error_of, serving

PATH = "/v1/corpora/c/documents"
HEADERS = {"Content-Type": "application/x-ndjson"}
LINE_LIMIT = LIMITS.text_bytes + LIMITS.metadata_bytes + ndjson.OTHER_BYTES


async def post(client: httpx.AsyncClient, content: bytes | AsyncIterator[bytes]) -> list[Any]:
    response = await client.post(PATH, content=content, headers=HEADERS)
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in response.text.splitlines()]


def line(identity: str, text: str = "t", **fields: Any) -> bytes:
    return json.dumps({"id": identity, "text": text, **fields}).encode() + b"\n"


def batches(gateway: RecordingGateway) -> list[list[str]]:
    """The ids of the documents of each call."""
    return [[document.id for document in call[2]] for call in gateway.calls]


async def test_every_line_is_answered_in_order_with_its_number(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    body = line("a", title="T", metadata={"year": 2020}) + b'{"id": "b", "chunks": ["x", "y"]}'
    assert await post(client, body) == [
        {"line": 1, "id": "a", "status": "stored", "chunks": 1, "error": None},
        {"line": 2, "id": "b", "status": "stored", "chunks": 1, "error": None},
    ]
    documents = [
        Document("a", "t", "T", None, {"year": 2020}),
        Document("b", "", chunks=("x", "y")),
    ]
    assert gateway.calls == [("put", CorpusKey("default", "c"), documents)]


@pytest.mark.parametrize(
    ("bad", "identity", "error"),
    [
        (b"{", None, "the line is not valid JSON"),
        (b"\xff\xfe\xfd", None, "the line is not valid JSON"),
        (b"[" * 9000, None, "the line is not valid JSON"),
        (b'{"id": ' + b"9" * 5000 + b"}", None, "the line is not valid JSON"),
        (b"[]", None, "the line must be a JSON object"),
        (b"null", None, "the line must be a JSON object"),
        (b'{"text": "t"}', None, "id: Field required"),
        (b'{"id": 7, "text": "t"}', None, "id: Input should be a valid string"),
        (b'{"id": "\\ud800", "text": "t"}', None, "id: text must be valid Unicode"),
        (b'{"id": "x"}', "x", "needs text or chunks"),
        (b'{"id": "x", "txt": "t"}', "x", "txt: unknown field; did you mean text?"),
        (
            b'{"id": "x", "text": "t", "metadata": {"_reranked": 1}}',
            "x",
            "metadata._reranked: this key is reserved",
        ),
        (
            b'{"id": "x", "text": "t", "metadata": {"n": NaN}}',
            "x",
            "metadata.n: numbers must be finite",
        ),
        (
            b'{"id": "x", "text": "' + b"t" * 1001 + b'"}',
            "x",
            "text: must have at most 1000 bytes",
        ),
        (b" " * LINE_LIMIT + b"{}", None, f"a line must have at most {LINE_LIMIT} bytes"),
    ],
)
async def test_a_bad_line_is_an_error_of_that_line_alone(
    client: httpx.AsyncClient,
    gateway: RecordingGateway,
    bad: bytes,
    identity: str | None,
    error: str,
) -> None:
    first, refused, last = await post(client, line("a") + bad + b"\n" + line("b"))
    assert (first["line"], first["status"]) == (1, "stored")
    assert refused == {
        "line": 2,
        "id": identity,
        "status": "refused",
        "chunks": None,
        "error": error,
    }
    assert (last["line"], last["status"]) == (3, "stored")
    assert batches(gateway) == [["a", "b"]]


async def test_blank_lines_count_and_are_not_answered(client: httpx.AsyncClient) -> None:
    answers = await post(client, b"\n \r\n" + line("a").replace(b"\n", b"\r\n") + b"\n")
    assert [(one["line"], one["id"]) for one in answers] == [(3, "a")]
    assert await post(client, b"") == []


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_where_the_body_is_cut_on_its_way_makes_no_difference(
    client: httpx.AsyncClient, size: int
) -> None:
    body = line("a", "é😀" * 100) + line("b", "x\u2028y") + b"{\n" + line("c")

    async def cut() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    answers = await post(client, cut())
    assert [(one["line"], one["id"], one["status"]) for one in answers] == [
        (1, "a", "stored"),
        (2, "b", "stored"),
        (3, None, "refused"),
        (4, "c", "stored"),
    ]


async def test_batches_are_bounded_by_lines_and_bytes(
    client: httpx.AsyncClient, gateway: RecordingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = await post(client, b"".join(line(f"d{n}") for n in range(150)))
    assert [one["id"] for one in answers] == [f"d{n}" for n in range(150)]
    assert [len(ids) for ids in batches(gateway)] == [64, 64, 22]
    gateway.calls.clear()
    monkeypatch.setattr(ndjson, "BATCH_BYTES", 2500)
    await post(client, b"".join(line(f"d{n}", "x" * 900) for n in range(5)))
    assert batches(gateway) == [["d0", "d1"], ["d2", "d3"], ["d4"]]


async def test_of_two_lines_with_one_id_the_later_replaces(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    answers = await post(client, line("a", "old") + line("b") + line("a", "new") + line("c"))
    assert [one["line"] for one in answers] == [1, 2, 3, 4]
    assert batches(gateway) == [["a", "b"], ["a", "c"]]


async def test_a_body_beyond_the_limit_of_a_request_goes_through(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    body = b"".join(line(f"d{n}", "x" * 900) for n in range(100))
    assert len(body) > 4 * LIMITS.body_bytes
    answers = await post(client, body)
    assert {one["status"] for one in answers} == {"stored"}


async def test_what_cannot_be_stored_is_said_of_its_lines_and_the_stream_goes_on(
    gateway: RecordingGateway,
) -> None:
    calls = 0

    async def put(corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Unavailable("Indexer failed")
        return [PutResult(document.id, "unchanged") for document in documents]

    gateway.put = put  # type: ignore[method-assign]
    async with serving(gateway) as client:
        answers = await post(client, line("a") + line("b") + line("a"))
    assert [(one["id"], one["status"], one["error"]) for one in answers] == [
        ("a", "failed", "Indexer failed"),
        ("b", "failed", "Indexer failed"),
        ("a", "unchanged", None),
    ]


async def test_only_ndjson_is_taken_and_only_here(client: httpx.AsyncClient) -> None:
    response = await client.post(PATH, json={"documents": []})
    assert error_of(response) == (422, "invalid_input", "Content-Type")
    assert "application/x-ndjson" in response.json()["error"]["message"]
    for method, path in (("PUT", PATH), ("POST", "/v1/search"), ("POST", f"{PATH}/x")):
        response = await client.request(method, path, content=line("a"), headers=HEADERS)
        assert error_of(response) == (422, "invalid_input", "Content-Type")


async def test_a_wrong_corpus_is_422_before_anything_is_read(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/corpora/.c/documents", content=line("a"), headers=HEADERS)
    assert error_of(response) == (422, "invalid_input", "corpus")


async def test_who_is_not_served_may_not_stream_either(gateway: RecordingGateway) -> None:
    async with serving(gateway, host="10.0.0.7") as remote:
        response = await remote.post(PATH, content=line("a"), headers=HEADERS)
    assert error_of(response) == (401, "unauthorized", None)
    assert gateway.calls == []


class Exchange:
    """One request over ASGI, whose body is given and whose answer is taken piece by piece."""

    def __init__(self, gateway: RecordingGateway) -> None:
        self.coming: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)
        app = create_api(gateway, LimitsArgs(), AuthArgs())
        scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "query_string": b"",
            "headers": [(b"content-type", b"application/x-ndjson")],
            "client": ("127.0.0.1", 1),
        }
        self.task = asyncio.ensure_future(app(scope, self.coming.get, self.sent.put))

    def give(self, body: bytes, more: bool = True) -> None:
        self.coming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    async def take(self) -> bytes:
        message = await asyncio.wait_for(self.sent.get(), 5)
        body: bytes = message.get("body", b"")
        return body


async def test_lines_come_back_before_the_request_has_ended(gateway: RecordingGateway) -> None:
    exchange = Exchange(gateway)
    assert await exchange.take() == b""  # the headers
    for name in ("a", "b"):
        exchange.give(line(name))  # and the next only after the answer
        assert json.loads(await exchange.take())["id"] == name
    exchange.give(line("c"), more=False)
    assert json.loads(await exchange.take())["id"] == "c"
    assert await exchange.take() == b""
    await exchange.task
    assert batches(gateway) == [["a"], ["b"], ["c"]]


async def test_while_answers_are_not_taken_nothing_more_is_stored(
    gateway: RecordingGateway,
) -> None:
    exchange = Exchange(gateway)
    for number in range(1000):
        exchange.give(line(f"d{number}"), more=number < 999)
    await exchange.take()
    answers = [await exchange.take() for _ in range(64)]
    while len(gateway.calls) < 2:
        await asyncio.sleep(0.01)
    for _ in range(100):
        await asyncio.sleep(0)
    assert [len(ids) for ids in batches(gateway)] == [64, 64]
    while json.loads(answers[-1])["line"] < 1000:
        answers.append(await exchange.take())
    assert await exchange.take() == b""
    await exchange.task
    assert [json.loads(one)["id"] for one in answers] == [f"d{n}" for n in range(1000)]


async def test_a_client_that_leaves_has_whole_batches_stored_and_no_part_of_one(
    gateway: RecordingGateway,
) -> None:
    exchange = Exchange(gateway)
    exchange.give(b"".join(line(f"d{number}") for number in range(70)) + b'{"id": "cut", "te')
    exchange.coming.put_nowait({"type": "http.disconnect"})
    await exchange.take()
    for _ in range(64):
        await exchange.take()
    assert await exchange.take() == b""
    await exchange.task
    assert [len(ids) for ids in batches(gateway)] == [64]


async def test_a_request_that_is_cancelled_leaves_no_task(gateway: RecordingGateway) -> None:
    exchange = Exchange(gateway)
    exchange.give(line("a"))
    await exchange.take()
    await exchange.take()
    exchange.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await exchange.task
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
