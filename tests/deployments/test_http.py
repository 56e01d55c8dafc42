"""The routes over ASGI, with a gateway that records what reaches it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest

from deployments.config import AuthArgs, LimitsArgs
from deployments.ingress import create_api
from deployments.ranking import RankedText, RerankAnswer
from pipeline.documents import CorpusKey, Document, PutResult
from pipeline.errors import NotFound, Overloaded, Unavailable
from pipeline.scoring import Tally
from tracker.records import Outcome

LIMITS = LimitsArgs(body_bytes=20_000, query_chars=100, documents=5, text_bytes=1000)


class RecordingGateway:
    """Answers everything, and keeps what it was asked; `error` is raised instead if set."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.error: Exception | None = None
        self.ready = True

    def note(self, *call: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(call)

    async def search(
        self, tenant: str, request: Mapping[str, Any], remaining_ms: float
    ) -> dict[str, Any]:
        self.note("search", tenant, request, remaining_ms)
        return {"retrieval_id": "r", "hits": [], "timings_ms": {"retrieve": 1.25, "total": 2.0}}

    async def rerank(
        self, tenant: str, query: str, documents: Sequence[str], remaining_ms: float
    ) -> RerankAnswer:
        self.note("rerank", query, list(documents))
        ranked = [RankedText(i, 1 / (i + 2), None, False) for i in range(len(documents))]
        return RerankAnswer("m", tuple(reversed(ranked)), (), Tally(passes=len(documents)))

    async def put(self, corpus: CorpusKey, documents: Sequence[Document]) -> list[PutResult]:
        self.note("put", corpus, list(documents))
        return [PutResult(d.id, "stored", 1) for d in documents]

    async def delete(self, corpus: CorpusKey, document_id: str) -> int:
        self.note("delete", corpus, document_id)
        return 0

    async def feedback(
        self, tenant: str, retrieval_id: str, document_id: str, outcome: Outcome
    ) -> None:
        self.note("feedback", retrieval_id, document_id, outcome)

    async def purge(self, before: datetime, dry_run: bool) -> dict[str, int]:
        self.note("purge", before, dry_run)
        return {"retrievals": 1, "hits": 2, "feedback": 0}

    async def status(self) -> dict[str, Any]:
        return {"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}

    async def readiness(self) -> tuple[bool, list[str]]:
        return self.ready, [] if self.ready else ["Scorer"]


@pytest.fixture
def gateway() -> RecordingGateway:
    return RecordingGateway()


@pytest.fixture
async def client(gateway: RecordingGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(gateway) as running:
        yield running


def serving(
    gateway: RecordingGateway, *, auth: AuthArgs | None = None, host: str = "127.0.0.1"
) -> httpx.AsyncClient:
    app = create_api(gateway, LIMITS, auth or AuthArgs())
    transport = httpx.ASGITransport(app, client=(host, 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    assert error["request_id"] == response.headers["X-Request-Id"]
    assert response.headers["Server-Timing"].endswith(tuple("0123456789"))
    return response.status_code, error["type"], error["param"]


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
    async with serving(gateway, auth=AuthArgs(allow_anonymous=True), host="10.0.0.7") as remote:
        assert (await remote.post("/v1/search", json={"query": "q"})).status_code == 200


async def test_documents_are_put_with_their_fields(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    documents = [
        {"id": "a", "text": "t", "title": "T", "source": "s", "metadata": {"year": 2020}},
        {"id": "b", "chunks": ["one", "two"]},
    ]
    response = await client.put("/v1/corpora/c/documents", json={"documents": documents})
    assert response.json()["documents"][0]["status"] == "stored"
    assert gateway.calls == [
        (
            "put",
            CorpusKey("default", "c"),
            [
                Document("a", "t", "T", "s", {"year": 2020}),
                Document("b", "", chunks=("one", "two")),
            ],
        )
    ]


@pytest.mark.parametrize("key", ["_crossEncoderScore", "_reranked", "_tracked", "_grade"])
async def test_a_reserved_key_is_refused_by_name_and_nothing_is_stored(
    client: httpx.AsyncClient, gateway: RecordingGateway, key: str
) -> None:
    documents = [{"id": "a", "text": "t"}, {"id": "b", "text": "t", "metadata": {key: 99}}]
    response = await client.put("/v1/corpora/c/documents", json={"documents": documents})
    assert error_of(response) == (422, "invalid_input", f"documents[1].metadata.{key}")
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("document", "param"),
    [
        ({"id": "", "text": "t"}, "documents[0].id"),
        ({"id": 7, "text": "t"}, "documents[0].id"),
        ({"id": "a"}, "documents[0]"),
        ({"id": "a", "text": " "}, "documents[0].text"),
        ({"id": "a", "text": "t", "metadata": {"n": 2**63}}, "documents[0].metadata.n"),
        ({"id": "a", "text": "t", "metadata": [1]}, "documents[0].metadata"),
        ({"id": "a", "text": "t", "meta": {}}, "documents[0].meta"),
        ({"id": "a", "text": "t", "chunks": []}, "documents[0].chunks"),
        ({"id": "a", "text": "t", "chunks": [""]}, "documents[0].chunks[0]"),
    ],
)
async def test_one_bad_document_is_422_and_nothing_is_stored(
    client: httpx.AsyncClient, gateway: RecordingGateway, document: Any, param: str
) -> None:
    response = await client.put("/v1/corpora/c/documents", json={"documents": [document]})
    assert error_of(response) == (422, "invalid_input", param)
    assert gateway.calls == []


async def test_metadata_nested_too_deep_or_with_a_lone_surrogate_is_refused(
    client: httpx.AsyncClient,
) -> None:
    deep: Any = 1
    for _ in range(65):
        deep = {"d": deep}
    for metadata in (json.dumps(deep), '{"k": "\\ud800"}', '{"k": NaN}'):
        body = f'{{"documents": [{{"id": "a", "text": "t", "metadata": {metadata}}}]}}'
        response = await client.put(
            "/v1/corpora/c/documents", content=body, headers={"Content-Type": "application/json"}
        )
        status, kind, _ = error_of(response)
        assert (status, kind) == (422, "invalid_input")


async def test_the_same_id_twice_in_a_request_is_refused(client: httpx.AsyncClient) -> None:
    documents = [{"id": "a", "text": "t"}, {"id": "a", "text": "u"}]
    response = await client.put("/v1/corpora/c/documents", json={"documents": documents})
    assert error_of(response) == (422, "invalid_input", "documents[1].id")


async def test_too_many_or_too_large_documents_are_413_naming_the_limit(
    client: httpx.AsyncClient,
) -> None:
    many = [{"id": str(n), "text": "t"} for n in range(6)]
    response = await client.put("/v1/corpora/c/documents", json={"documents": many})
    assert error_of(response) == (413, "payload_too_large", "documents")
    large = [{"id": "a", "text": "é" * 501}]
    response = await client.put("/v1/corpora/c/documents", json={"documents": large})
    assert error_of(response) == (413, "payload_too_large", "documents[0].text")
    response = await client.post("/v1/rerank", json={"query": "q", "documents": ["a"] * 6})
    assert error_of(response) == (413, "payload_too_large", "documents")


async def test_rerank_takes_strings_and_objects_and_cuts_to_top_n(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    body = {"model": "x", "query": "q", "documents": ["a", {"text": "b", "id": "7"}], "top_n": 1}
    response = await client.post("/v1/rerank", json=body)
    answer = response.json()
    assert gateway.calls == [("rerank", "q", ["a", "b"])]
    assert [(r["index"], r["relevance_score"]) for r in answer["results"]] == [(1, 1 / 3)]
    assert "document" not in answer["results"][0]
    assert answer["model"] == "m"


async def test_return_documents_gives_back_the_text_that_was_sent(
    client: httpx.AsyncClient,
) -> None:
    body = {"query": "q", "documents": ["a", {"text": "b"}], "return_documents": True}
    response = await client.post("/v1/rerank", json=body)
    texts = [result["document"]["text"] for result in response.json()["results"]]
    assert texts == ["b", "a"]


@pytest.mark.parametrize("top_n", [0, -1, True, "3", 3.7])
async def test_a_top_n_that_is_no_count_is_422(client: httpx.AsyncClient, top_n: Any) -> None:
    body = {"query": "q", "documents": ["a"], "top_n": top_n}
    response = await client.post("/v1/rerank", json=body)
    assert error_of(response) == (422, "invalid_input", "top_n")


@pytest.mark.parametrize("document", [None, 5, {"txt": "a"}, {"text": 5}, ["a"]])
async def test_a_document_that_is_no_text_is_named_by_its_index(
    client: httpx.AsyncClient, document: Any
) -> None:
    body = {"query": "q", "documents": ["a", document]}
    response = await client.post("/v1/rerank", json=body)
    assert error_of(response) == (422, "invalid_input", "documents[1]")


async def test_no_documents_to_rerank_is_422(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/rerank", json={"query": "q", "documents": []})
    assert error_of(response) == (422, "invalid_input", "documents")


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


async def test_feedback_with_an_unknown_outcome_is_422(client: httpx.AsyncClient) -> None:
    body = {"retrieval_id": "r", "document_id": "d", "outcome": "good"}
    response = await client.post("/v1/feedback", json=body)
    assert error_of(response) == (422, "invalid_input", "outcome")


@pytest.mark.parametrize("before", ["yesterday", "2026-01-01T00:00:00", 5, None])
async def test_a_purge_needs_a_time_with_a_zone(client: httpx.AsyncClient, before: Any) -> None:
    response = await client.post("/v1/admin/purge", json={"before": before})
    assert error_of(response) == (422, "invalid_input", "before")


async def test_a_purge_answers_with_its_counts(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    body = {"before": "2026-01-01T00:00:00Z", "dry_run": True}
    response = await client.post("/v1/admin/purge", json=body)
    assert response.json()["deleted"] == {"retrievals": 1, "hits": 2, "feedback": 0}
    assert gateway.calls == [("purge", datetime(2026, 1, 1, tzinfo=timezone.utc), True)]


async def test_deleting_an_unknown_document_is_404(client: httpx.AsyncClient) -> None:
    response = await client.delete("/v1/corpora/c/documents/a/b.md")
    assert error_of(response) == (404, "not_found", "document_id")


async def test_readiness_is_503_until_ready_and_liveness_is_200(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    gateway.ready = False
    assert (await client.get("/healthz")).status_code == 200
    starting = await client.get("/readyz")
    assert (starting.status_code, starting.json()["degraded"]) == (503, ["Scorer"])
    gateway.ready = True
    assert (await client.get("/readyz")).status_code == 200


async def test_times_in_the_status_are_text(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/status")
    assert response.json() == {"at": "2026-01-01T00:00:00+00:00"}


async def test_the_openapi_document_lists_every_route(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert set(paths) == {
        "/healthz",
        "/readyz",
        "/v1/admin/purge",
        "/v1/corpora/{corpus}/documents",
        "/v1/corpora/{corpus}/documents/{document_id}",
        "/v1/feedback",
        "/v1/rerank",
        "/v1/search",
        "/v1/status",
    }
