"""Documents, reranking, feedback and purging over HTTP."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest

from deployments.inference.truncation import AS_CONFIGURED, Truncation
from pipeline.documents import CorpusKey, Document
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
    assert gateway.calls == [("rerank", "q", ["a", "b"], AS_CONFIGURED)]
    assert [(r["index"], r["relevance_score"]) for r in answer["results"]] == [(1, 1 / 3)]
    assert "document" not in answer["results"][0]
    assert answer["model"] == "m"


async def test_rerank_gives_back_the_ids_of_documents_that_have_one(
    client: httpx.AsyncClient,
) -> None:
    documents = ["a", {"text": "b", "id": "7"}, {"text": "c", "id": 8, "year": 1999}]
    response = await client.post("/v1/rerank", json={"query": "q", "documents": documents})
    results = {result["index"]: result for result in response.json()["results"]}
    assert "id" not in results[0]
    assert (results[1]["id"], results[2]["id"]) == ("7", 8)


async def test_rerank_says_how_much_of_each_pair_the_model_saw(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/rerank", json={"query": "q", "documents": ["a", "b"]})
    answer = response.json()
    assert [(r["truncated"], r["tokens"]) for r in answer["results"]] == [(True, 10), (False, 9)]
    assert answer["usage"] == {"total_tokens": 19}


@pytest.mark.parametrize(
    ("limits", "truncation"),
    [
        ({"max_tokens_per_doc": 100}, Truncation(max_document_tokens=100)),
        ({"max_tokens_per_doc": 10**6}, Truncation(max_document_tokens=10**6)),
        ({"max_tokens_per_query": 1}, Truncation(max_query_tokens=1)),
        ({"truncation_direction": "left"}, Truncation("left")),
        ({"truncation_direction": "Right"}, Truncation("right")),
        ({"max_tokens_per_doc": None, "truncation_direction": None}, AS_CONFIGURED),
    ],
)
async def test_where_a_rerank_cuts_its_texts_reaches_the_gateway(
    client: httpx.AsyncClient,
    gateway: RecordingGateway,
    limits: dict[str, Any],
    truncation: Truncation,
) -> None:
    response = await client.post("/v1/rerank", json={"query": "q", "documents": ["a"], **limits})
    assert response.status_code == 200
    assert gateway.calls == [("rerank", "q", ["a"], truncation)]


@pytest.mark.parametrize("name", ["max_tokens_per_doc", "max_tokens_per_query"])
@pytest.mark.parametrize("value", [0, -1, True, "3", 3.5, [3]])
async def test_a_limit_that_is_no_count_of_tokens_is_422(
    client: httpx.AsyncClient, name: str, value: Any
) -> None:
    body = {"query": "q", "documents": ["a"], name: value}
    response = await client.post("/v1/rerank", json=body)
    assert error_of(response) == (422, "invalid_input", name)


@pytest.mark.parametrize("value", ["both", "", 1, True])
async def test_an_unknown_end_to_cut_is_422(client: httpx.AsyncClient, value: Any) -> None:
    body = {"query": "q", "documents": ["a"], "truncation_direction": value}
    response = await client.post("/v1/rerank", json=body)
    assert error_of(response) == (422, "invalid_input", "truncation_direction")


@pytest.mark.parametrize("value", [[7], True, 1.5])
async def test_a_documents_id_is_text_or_a_whole_number(
    client: httpx.AsyncClient, value: Any
) -> None:
    body = {"query": "q", "documents": ["a", {"text": "b", "id": value}]}
    response = await client.post("/v1/rerank", json=body)
    assert error_of(response) == (422, "invalid_input", "documents[1].id")


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


async def test_deleting_an_unknown_document_is_404(client: httpx.AsyncClient) -> None:
    response = await client.delete("/v1/corpora/c/documents/a/b.md")
    assert error_of(response) == (404, "not_found", "document_id")


async def test_the_openapi_document_lists_every_route(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert set(paths) == {
        "/healthz",
        "/readyz",
        "/v1/admin/purge",
        "/v1/corpora/{corpus}/documents",
        "/v1/corpora/{corpus}/documents/{document_id}",
        "/v1/feedback",
        "/v1/reports/{name}",
        "/v1/rerank",
        "/v1/search",
        "/v1/status",
    }
