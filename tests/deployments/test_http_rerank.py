"""Reranking over HTTP by POST /v1/rerank."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from deployments.inference.truncation import AS_CONFIGURED, Truncation
from tests.deployments.dialects import RankingGateway, serving_defaults
from tests.deployments.gateway import RecordingGateway, error_of


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
    assert answer["usage"] == {"prompt_tokens": 19, "total_tokens": 19}


@pytest.mark.parametrize(
    ("limits", "truncation"),
    [
        ({"max_tokens_per_doc": 100}, Truncation(max_document_tokens=100)),
        ({"max_tokens_per_doc": 10**6}, Truncation(max_document_tokens=10**6)),
        ({"max_tokens_per_query": 1}, Truncation(max_query_tokens=1)),
        ({"truncation_direction": "left"}, Truncation("left")),
        ({"truncation_direction": "Right"}, Truncation("right")),
        ({"truncation_side": "left"}, Truncation("left")),
        ({"truncate_prompt_tokens": 64}, Truncation(max_document_tokens=64)),
        ({"truncate_prompt_tokens": -1}, AS_CONFIGURED),
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


async def test_a_whole_answer_with_the_logits_beside_the_scores() -> None:
    gateway = RankingGateway({"good": 2.0, "bad": -2.0})
    async with serving_defaults(gateway) as client:
        body = {"query": "q", "documents": ["bad", "unknown", "good", "bad"], "top_n": 2}
        answer = (await client.post("/v1/rerank", json=body)).json()
    assert len(answer.pop("id")) == 32
    seen = {"truncated": False, "tokens": 0}
    assert answer == {
        "model": "fake@1",
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
        "results": [
            {"index": 2, "relevance_score": 0.8807970779778823, "logit": 2.0, **seen},
            {"index": 0, "relevance_score": 0.11920292202211755, "logit": -2.0, **seen},
        ],
        "meta": {
            "api_version": {"version": "1"},
            "billed_units": {"search_units": 1},
            "forward_passes": 3,
            "cached_scores": 0,
            "shared_scores": 0,
            "unscored": [1],
        },
    }


@pytest.mark.parametrize("name", ["use_activation", "activation", "softmax"])
async def test_scores_are_logits_where_the_activation_is_switched_off(name: str) -> None:
    async with serving_defaults(RankingGateway({"a": -7.0, "b": 9.0})) as client:
        body = {"query": "q", "documents": ["a", "b"], name: False}
        results = (await client.post("/v1/rerank", json=body)).json()["results"]
    assert [(one["index"], one["relevance_score"]) for one in results] == [(1, 9.0), (0, -7.0)]


async def test_logits_of_a_model_that_gives_none_are_refused(client: httpx.AsyncClient) -> None:
    body = {"query": "q", "documents": ["a"], "use_activation": False}
    response = await client.post("/v1/rerank", json=body)
    assert error_of(response) == (422, "invalid_input", "use_activation")


async def test_objects_are_ranked_by_their_rank_fields(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    documents = [{"title": "T", "body": "B", "year": 1999}, "plain"]
    body = {"query": "q", "documents": documents, "rank_fields": ["title", "body"]}
    response = await client.post("/v1/rerank", json={**body, "return_documents": True})
    assert gateway.calls == [("rerank", "q", ["T\nB", "plain"], AS_CONFIGURED)]
    texts = {one["index"]: one["document"]["text"] for one in response.json()["results"]}
    assert texts == {0: "T\nB", 1: "plain"}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"rank_fields": ["title", "body"]}, "documents[1]"),
        ({"rank_fields": ["year"]}, "documents[1]"),
        ({"rank_fields": []}, "rank_fields"),
        ({"rank_fields": [5]}, "rank_fields[0]"),
        ({"rank_fields": "title"}, "rank_fields"),
        ({"documents": 5, "rank_fields": ["title"]}, "documents"),
    ],
)
async def test_wrong_rank_fields_are_422(
    client: httpx.AsyncClient, given: dict[str, Any], param: str
) -> None:
    documents = ["a", {"title": "T", "text": "t", "year": 1999}]
    response = await client.post("/v1/rerank", json={"query": "q", "documents": documents, **given})
    assert error_of(response) == (422, "invalid_input", param)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", 5),
        ("return_documents", "yes"),
        ("return_documents", 1),
        ("max_chunks_per_doc", 0),
        ("priority", "high"),
        ("use_activation", 0),
        ("truncate_prompt_tokens", 0),
        ("truncate_prompt_tokens", -2),
        ("truncate_prompt_tokens", True),
        ("truncate_prompt_tokens", "64"),
        ("truncation_side", "middle"),
    ],
)
async def test_a_known_field_of_the_wrong_type_is_422_naming_it(
    client: httpx.AsyncClient, gateway: RecordingGateway, field: str, value: Any
) -> None:
    body = {"query": "q", "documents": ["a"], field: value}
    assert error_of(await client.post("/v1/rerank", json=body)) == (422, "invalid_input", field)
    assert gateway.calls == []


async def test_fields_that_no_dialect_knows_and_those_without_effect_are_ignored(
    client: httpx.AsyncClient,
) -> None:
    ignored = {"model": "rerank-v3.5", "priority": 3, "max_chunks_per_doc": 10, "nothing": [None]}
    body = {"query": "q", "documents": ["a"], **ignored}
    response = await client.post("/v1/rerank", json=body)
    assert (response.status_code, response.json()["model"]) == (200, "m")


async def test_a_top_n_beyond_the_documents_gives_them_all() -> None:
    async with serving_defaults(RankingGateway({"a": 1.0})) as client:
        body = {"query": "q", "documents": ["a"], "top_n": 5}
        response = await client.post("/v1/rerank", json=body)
    assert [one["index"] for one in response.json()["results"]] == [0]


async def test_an_error_is_readable_by_clients_of_each_dialect_of_the_route(
    client: httpx.AsyncClient,
) -> None:
    body = {"query": "q", "documents": ["a", 5]}
    response = await client.post("/v1/rerank", json=body, headers={"X-Request-Id": "mine"})
    said = "must be a string, or an object with a string in `text`"
    assert response.json() == {
        "error": {
            "type": "invalid_input",
            "message": said,
            "param": "documents[1]",
            "request_id": "mine",
        },
        "message": f"documents[1]: {said}",
        "detail": f"documents[1]: {said}",
    }
