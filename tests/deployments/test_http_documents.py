"""Corpora, documents, feedback and purging over HTTP."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from pipeline.documents import CorpusKey, Document
from pipeline.errors import NotFound
from tests.deployments.gateway import RecordingGateway, error_of


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
        ({"id": ".", "text": "t"}, "documents[0].id"),
        ({"id": "..", "text": "t"}, "documents[0].id"),
        ({"id": "a\n", "text": "t"}, "documents[0].id"),
        ({"id": "\0", "text": "t"}, "documents[0].id"),
        ({"id": "a\x7fb", "text": "t"}, "documents[0].id"),
        ({"id": "\x85a", "text": "t"}, "documents[0].id"),
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
    assert gateway.calls == [("purge", "default", datetime(2026, 1, 1, tzinfo=timezone.utc), True)]


async def test_compacting_answers_with_the_sizes_before_and_after(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    response = await client.post("/v1/admin/compact", json={})
    assert response.json() == {"bytes_before": 9, "bytes_after": 4}
    assert gateway.calls == [("compact",)]


@pytest.mark.parametrize("identity", ["a/b.md", "...", ".a", "../a", "a b", "é", " a", "a?b#c%"])
async def test_any_other_id_is_stored_and_reached_by_its_path(
    client: httpx.AsyncClient, gateway: RecordingGateway, identity: str
) -> None:
    document = {"id": identity, "text": "t"}
    response = await client.put("/v1/corpora/c/documents", json={"documents": [document]})
    assert response.status_code == 200
    response = await client.get(f"/v1/corpora/c/documents/{quote(identity, safe='')}")
    assert response.json()["id"] == identity
    assert gateway.calls[-1] == ("document", CorpusKey("default", "c"), identity)


@pytest.mark.parametrize("end", ["%0A", "%00", "%0D%0A", "%7F", "%C2%85"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/corpora/c/documents/a"),
        ("GET", "/v1/corpora/c/documents/a"),
        ("DELETE", "/v1/corpora/c"),
        ("GET", "/v1/retrievals/r"),
        ("GET", "/v1/reports/usage"),
        ("POST", "/v1/search"),
        ("POST", "/v1/corpora/c/documents"),
    ],
)
async def test_a_path_with_a_control_character_stands_for_no_other(
    client: httpx.AsyncClient, gateway: RecordingGateway, method: str, path: str, end: str
) -> None:
    json = {"query": "q"} if method == "POST" else None
    response = await client.request(method, path + end, json=json)
    assert error_of(response) == (422, "invalid_input", "path")
    assert gateway.calls == []


async def test_deleting_an_unknown_document_is_404(client: httpx.AsyncClient) -> None:
    response = await client.delete("/v1/corpora/c/documents/a/b.md")
    assert error_of(response) == (404, "not_found", "document_id")


async def test_corpora_are_listed_with_their_counts_page_by_page(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    first = (await client.get("/v1/corpora", params={"limit": "2"})).json()
    assert first["items"] == [
        {"corpus": "a", "documents": 2, "chunks": 5},
        {"corpus": "b", "documents": None, "chunks": None},
    ]
    rest = (await client.get("/v1/corpora", params={"next": first["next"]})).json()
    assert rest == {"items": [{"corpus": "c", "documents": 0, "chunks": 0}], "next": None}
    assert gateway.calls == [("corpora", "default", "", 3), ("corpora", "default", "b", 101)]


async def test_a_corpus_is_counted_and_dropped(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    counted = await client.get("/v1/corpora/c")
    assert counted.json() == {"corpus": "c", "documents": 2, "chunks": 5}
    dropped = await client.delete("/v1/corpora/c")
    assert dropped.json() == {"corpus": "c", "deleted": True}
    key = CorpusKey("default", "c")
    assert gateway.calls == [("size", key), ("drop", key)]


async def test_a_corpus_that_does_not_exist_is_404(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    gateway.error = NotFound("there is no such corpus", "corpus")
    for method, path in (
        ("GET", "/v1/corpora/none"),
        ("DELETE", "/v1/corpora/none"),
        ("GET", "/v1/corpora/none/documents"),
        ("GET", "/v1/corpora/none/documents/a"),
    ):
        response = await client.request(method, path)
        assert error_of(response) == (404, "not_found", "corpus")


async def test_a_document_is_shown_as_it_is_stored(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/corpora/c/documents/a/é%2Fb.md")
    assert response.json() == {
        "corpus": "c",
        "id": "a/é/b.md",
        "title": "T",
        "source": None,
        "metadata": {"x": None},
        "chunks": ["one", "two"],
    }
    unknown = await client.get("/v1/corpora/c/documents/unknown")
    assert error_of(unknown) == (404, "not_found", "document_id")


async def test_documents_are_listed_by_id_page_by_page(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    path, key = "/v1/corpora/c/documents", CorpusKey("default", "c")
    first = (await client.get(path, params={"limit": "2"})).json()
    assert first["items"] == [{"id": "a", "title": "A"}, {"id": "b/é.md", "title": None}]
    rest = (await client.get(path, params={"limit": "2", "next": first["next"]})).json()
    assert rest == {"items": [{"id": "c", "title": "C"}], "next": None}
    assert gateway.calls == [("documents", key, "", 3), ("documents", key, "b/é.md", 3)]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("document_id", ["", "x" * 513])
async def test_an_id_that_no_document_can_have_is_422(
    client: httpx.AsyncClient, gateway: RecordingGateway, method: str, document_id: str
) -> None:
    response = await client.request(method, f"/v1/corpora/c/documents/{document_id}")
    assert error_of(response) == (422, "invalid_input", "document_id")
    assert gateway.calls == []


async def test_the_openapi_document_lists_every_route(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert set(paths) == {
        "/healthz",
        "/info",
        "/readyz",
        "/rerank",
        "/score",
        "/v1/admin/compact",
        "/v1/admin/purge",
        "/v1/corpora",
        "/v1/corpora/{corpus}",
        "/v1/corpora/{corpus}/documents",
        "/v1/corpora/{corpus}/documents/{document_id}",
        "/v1/embeddings",
        "/v1/feedback",
        "/v1/models",
        "/v1/ranking",
        "/v1/reports/{name}",
        "/v1/rerank",
        "/v1/retrievals",
        "/v1/retrievals/{retrieval_id}",
        "/v1/score",
        "/v1/search",
        "/v1/status",
        "/v2/rerank",
    }
