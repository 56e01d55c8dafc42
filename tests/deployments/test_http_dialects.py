"""Ranking and scoring in the shapes of Cohere, text-embeddings-inference, NIM and vLLM."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from deployments.inference.truncation import AS_CONFIGURED, Truncation
from tests.deployments.dialects import DIALECTS, Dialect, RankingGateway, serving_defaults
from tests.deployments.gateway import RecordingGateway

GOOD, FAIR, BAD = 0.8807970779778823, 0.5, 0.11920292202211755

each_dialect = pytest.mark.parametrize(
    "dialect", DIALECTS, ids=lambda one: f"{one.path} {one.texts}"
)


@pytest.fixture
def ranking() -> RankingGateway:
    return RankingGateway({"good": 2.0, "fair": 0.0, "bad": -2.0})


@pytest.fixture
async def ranked(ranking: RankingGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_defaults(ranking) as running:
        yield running


@each_dialect
async def test_an_index_is_the_place_in_the_input_and_carries_its_own_score(
    ranked: httpx.AsyncClient, dialect: Dialect
) -> None:
    body = dialect.body("q", ["bad", "fair", "good", "bad"])
    found = dialect.read((await ranked.post(dialect.path, json=body)).json())
    scale = (2.0, 0.0, -2.0) if dialect.texts == "passages" else (GOOD, FAIR, BAD)
    good, fair, bad = scale
    assert sorted(found) == [(0, bad), (1, fair), (2, good), (3, bad)]
    if dialect.texts != "text_2":
        assert found == [(2, good), (1, fair), (0, bad), (3, bad)]


@each_dialect
async def test_a_thousand_texts_are_ranked_and_one_more_is_413_naming_the_limit(
    dialect: Dialect,
) -> None:
    logits = {f"text {n}": n / 100 - 5 for n in range(1000)}
    async with serving_defaults(RankingGateway(logits)) as client:
        response = await client.post(dialect.path, json=dialect.body("q", list(logits)))
        found = sorted(dialect.read(response.json()), key=lambda one: one[1])
        assert [index for index, _ in found] == list(range(1000))
        response = await client.post(dialect.path, json=dialect.body("q", [*logits, "another"]))
    assert response.status_code == 413
    assert "must hold at most 1000 documents" in response.text
    assert dialect.texts in response.text


@each_dialect
async def test_a_long_text_is_refused_by_the_limit_of_bytes_alone(dialect: Dialect) -> None:
    long = "word " * 200_000
    async with serving_defaults(RankingGateway({long: 1.0})) as client:
        response = await client.post(dialect.path, json=dialect.body("q", [long]))
        assert response.status_code == 200
        response = await client.post(
            dialect.path, json=dialect.body("q", ["a", long + "é" * 30_000])
        )
    assert response.status_code == 413
    assert f"{dialect.texts}[1]" in response.text
    assert "1048576" in response.text


@each_dialect
@pytest.mark.parametrize("wrong", [None, 5, True, ["a"]])
async def test_a_text_that_is_none_is_422_naming_its_place(
    ranked: httpx.AsyncClient, ranking: RankingGateway, dialect: Dialect, wrong: Any
) -> None:
    response = await ranked.post(dialect.path, json=dialect.body("q", ["good", wrong]))
    assert response.status_code == 422
    assert f"{dialect.texts}[1]" in response.text
    assert ranking.calls == []


@each_dialect
async def test_no_texts_are_422(ranked: httpx.AsyncClient, dialect: Dialect) -> None:
    response = await ranked.post(dialect.path, json=dialect.body("q", []))
    assert response.status_code == 422
    assert dialect.texts in response.text


@each_dialect
@pytest.mark.parametrize("query", ["", "  ", None, 5, ["q", 5]])
async def test_a_query_that_is_none_is_422(
    ranked: httpx.AsyncClient, ranking: RankingGateway, dialect: Dialect, query: Any
) -> None:
    response = await ranked.post(dialect.path, json=dialect.body(query, ["good"]))
    assert response.status_code == 422
    assert ranking.calls == []


@each_dialect
async def test_a_query_of_the_longest_length_is_served_and_a_longer_one_refused(
    ranked: httpx.AsyncClient, dialect: Dialect
) -> None:
    response = await ranked.post(dialect.path, json=dialect.body("q" * 8192, ["good"]))
    assert response.status_code == 200
    response = await ranked.post(dialect.path, json=dialect.body("q" * 8193, ["good"]))
    assert response.status_code == 422
    assert "8192" in response.text


@each_dialect
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"q"', b"[" * 5000, b"\xff"])
async def test_a_body_that_is_no_object_is_a_clear_4xx(
    ranked: httpx.AsyncClient, dialect: Dialect, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    response = await ranked.post(dialect.path, content=body, headers=headers)
    assert response.status_code in (400, 422)
    assert response.headers["X-Request-Id"]


@each_dialect
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_number_that_is_none_is_no_text(
    ranked: httpx.AsyncClient, dialect: Dialect, number: str
) -> None:
    body = json.dumps(dialect.body("q", ["good", 777])).replace("777", number)
    response = await ranked.post(
        dialect.path, content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422


cutting_dialect = pytest.mark.parametrize(
    "dialect", DIALECTS[:4], ids=lambda one: f"{one.path} {one.texts}"
)


@cutting_dialect
@pytest.mark.parametrize("top_n", [0, -1, True, "3", 3.7])
async def test_a_top_n_that_is_no_count_is_422_on_every_route(
    ranked: httpx.AsyncClient, dialect: Dialect, top_n: Any
) -> None:
    body = {**dialect.body("q", ["good"]), "top_n": top_n}
    response = await ranked.post(dialect.path, json=body)
    assert response.status_code == 422
    assert "top_n" in response.text


@cutting_dialect
@pytest.mark.parametrize(
    ("top_n", "places"), [(1, [2]), (2, [2, 1]), (5, [2, 1, 0]), (None, [2, 1, 0])]
)
async def test_top_n_keeps_the_best_and_null_keeps_all(
    ranked: httpx.AsyncClient, dialect: Dialect, top_n: int | None, places: list[int]
) -> None:
    body = {**dialect.body("q", ["bad", "fair", "good"]), "top_n": top_n}
    found = dialect.read((await ranked.post(dialect.path, json=body)).json())
    assert [index for index, _ in found] == places


async def test_cohere_2_gets_its_results_with_search_units(ranked: httpx.AsyncClient) -> None:
    body = {
        "model": "rerank-v3.5",
        "query": "q",
        "documents": ["bad", {"text": "good", "id": "7"}],
        "max_tokens_per_doc": 4096,
        "priority": 0,
    }
    answer = (await ranked.post("/v2/rerank", json=body)).json()
    assert len(answer.pop("id")) == 32
    assert answer == {
        "model": "fake@1",
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
        "results": [
            {"index": 1, "relevance_score": GOOD, "id": "7"},
            {"index": 0, "relevance_score": BAD},
        ],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
    }


@pytest.mark.parametrize(("documents", "units"), [(1, 1), (100, 1), (101, 2), (1000, 10)])
async def test_a_search_unit_is_a_query_with_up_to_100_documents(
    ranked: httpx.AsyncClient, documents: int, units: int
) -> None:
    body = {"query": "q", "documents": ["good"] * documents, "top_n": 1}
    for path in ("/v1/rerank", "/v2/rerank"):
        meta = (await ranked.post(path, json=body)).json()["meta"]
        assert meta["billed_units"] == {"search_units": units}


async def test_cohere_2_is_warned_of_documents_without_a_score(ranked: httpx.AsyncClient) -> None:
    body = {"query": "q", "documents": ["unknown", "good"]}
    answer = (await ranked.post("/v2/rerank", json=body)).json()
    assert [one["index"] for one in answer["results"]] == [1]
    assert answer["meta"]["warnings"] == ["documents[0] has no score"]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
async def test_a_document_is_given_back_only_on_request(
    ranked: httpx.AsyncClient, path: str
) -> None:
    body = {"query": "q", "documents": ["bad", {"text": "good"}]}
    for without in ({}, {"return_documents": False}, {"return_documents": None}):
        results = (await ranked.post(path, json={**body, **without})).json()["results"]
        assert not any("document" in one for one in results)
    results = (await ranked.post(path, json={**body, "return_documents": True})).json()["results"]
    assert [one["document"] for one in results] == [{"text": "good"}, {"text": "bad"}]


async def test_tei_gets_a_bare_list(ranked: httpx.AsyncClient, ranking: RankingGateway) -> None:
    body = {"query": "q", "texts": ["bad", "good"], "truncate": True}
    given = {"return_text": True, "truncation_direction": "Left"}
    assert (await ranked.post("/rerank", json={**body, **given})).json() == [
        {"index": 1, "score": GOOD, "text": "good"},
        {"index": 0, "score": BAD, "text": "bad"},
    ]
    assert (await ranked.post("/rerank", json=body)).json() == [
        {"index": 1, "score": GOOD},
        {"index": 0, "score": BAD},
    ]
    assert ranking.calls == [
        ("rerank", "q", ["bad", "good"], Truncation("left")),
        ("rerank", "q", ["bad", "good"], AS_CONFIGURED),
    ]


async def test_tei_gets_logits_as_raw_scores(ranked: httpx.AsyncClient) -> None:
    body = {"query": "q", "texts": ["bad", "good"], "raw_scores": True}
    answer = (await ranked.post("/rerank", json=body)).json()
    assert answer == [{"index": 1, "score": 2.0}, {"index": 0, "score": -2.0}]


async def test_tei_refuses_a_text_that_it_may_not_cut_naming_index_and_limit(
    client: httpx.AsyncClient,
) -> None:
    body = {"query": "q", "texts": ["a", "b", "c"], "truncate": False}
    response = await client.post("/rerank", json=body)
    said = "texts[1]: must have at most 10 tokens together with the query, and has more"
    assert response.status_code == 422
    assert response.json() == {"error": said, "error_type": "Validation", "detail": said}


@pytest.mark.parametrize("given", [{}, {"truncate": True}, {"truncate": None}])
async def test_tei_cuts_a_text_unless_it_may_not(
    client: httpx.AsyncClient, given: dict[str, Any]
) -> None:
    body = {"query": "q", "texts": ["a", "b", "c"], **given}
    response = await client.post("/rerank", json=body)
    assert [one["index"] for one in response.json()] == [2, 1, 0]


async def test_texts_and_documents_for_the_same_work_have_the_same_status() -> None:
    async with serving_defaults(RankingGateway({"a": 1.0})) as client:
        for count, status in ((1000, 200), (1001, 413)):
            for dialect in DIALECTS:
                body = dialect.body("q", ["a"] * count)
                assert (await client.post(dialect.path, json=body)).status_code == status


async def test_a_body_without_texts_and_documents_is_422(ranked: httpx.AsyncClient) -> None:
    response = await ranked.post("/rerank", json={"query": "q"})
    assert response.status_code == 422
    assert response.json()["error"] == "documents: Field required"


async def test_tei_asks_what_is_served(client: httpx.AsyncClient) -> None:
    assert (await client.get("/info")).json() == {
        "model_id": "m",
        "model_sha": None,
        "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
        "max_input_length": 512,
        "max_client_batch_size": 5,
        "auto_truncate": True,
        "version": "0.1.0",
    }


async def test_nim_gets_logits_and_usage(ranked: httpx.AsyncClient) -> None:
    body = {
        "model": "nvidia/llama-3.2-nv-rerankqa-1b-v2",
        "query": {"text": "q"},
        "passages": [{"text": "bad"}, {"text": "good"}],
    }
    assert (await ranked.post("/v1/ranking", json=body)).json() == {
        "rankings": [{"index": 1, "logit": 2.0}, {"index": 0, "logit": -2.0}],
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }


@pytest.mark.parametrize("given", [{}, {"truncate": "NONE"}, {"truncate": None}])
async def test_nim_refuses_a_passage_that_it_may_not_cut(
    client: httpx.AsyncClient, given: dict[str, Any]
) -> None:
    passages = [{"text": "a"}, {"text": "b"}]
    body = {"query": {"text": "q"}, "passages": passages, **given}
    response = await client.post("/v1/ranking", json=body)
    assert response.status_code == 422
    assert response.json()["detail"].startswith("passages[1]: must have at most 10 tokens")


@pytest.mark.parametrize("truncate", ["END ", "START", True, 1])
async def test_nim_refuses_an_unknown_way_to_cut(ranked: httpx.AsyncClient, truncate: Any) -> None:
    body = {"query": {"text": "q"}, "passages": [{"text": "good"}], "truncate": truncate}
    response = await ranked.post("/v1/ranking", json=body)
    assert response.status_code == 422
    assert response.json()["detail"].startswith("truncate: ")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/rerank", {"query": "q", "texts": ["a"], "raw_scores": True}, "raw_scores"),
        ("/score", {"text_1": "q", "text_2": ["a"], "use_activation": False}, "use_activation"),
        ("/v1/ranking", {"query": {"text": "q"}, "passages": [{"text": "a"}]}, "model"),
    ],
)
async def test_logits_of_a_model_that_gives_none_are_422(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], param: str
) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 422
    assert "gives no logits" in response.text
    assert param in response.text


@pytest.mark.parametrize("dialect", DIALECTS[3:], ids=lambda one: f"{one.path} {one.texts}")
async def test_a_text_without_a_score_is_503_where_the_answer_has_no_place_to_say_so(
    ranked: httpx.AsyncClient, dialect: Dialect
) -> None:
    response = await ranked.post(dialect.path, json=dialect.body("q", ["good", "unknown"]))
    assert response.status_code == 503
    assert f"{dialect.texts}[1]" in response.text


async def test_vllm_scores_one_text_with_each_of_many_in_their_order(
    ranked: httpx.AsyncClient, ranking: RankingGateway
) -> None:
    body = {"text_1": "q", "text_2": ["bad", "good"], "truncate_prompt_tokens": 64}
    answer = (await ranked.post("/v1/score", json=body)).json()
    assert len(answer.pop("id")) == 32
    assert answer.pop("created") > 1_700_000_000
    assert answer == {
        "object": "list",
        "model": "fake@1",
        "data": [
            {"index": 0, "object": "score", "score": BAD, "truncated": False},
            {"index": 1, "object": "score", "score": GOOD, "truncated": False},
        ],
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }
    truncation = Truncation(max_document_tokens=64)
    assert ranking.calls == [("rerank", "q", ["bad", "good"], truncation)]


@pytest.mark.parametrize("name", ["use_activation", "activation", "softmax"])
async def test_vllm_scores_pair_by_pair_asking_once_for_each_query(
    ranked: httpx.AsyncClient, ranking: RankingGateway, name: str
) -> None:
    body = {"text_1": ["q", "r", "q"], "text_2": ["bad", "fair", "good"], name: False}
    answer = (await ranked.post("/score", json=body)).json()
    assert [one["score"] for one in answer["data"]] == [-2.0, 0.0, 2.0]
    assert ranking.calls == [
        ("rerank", "q", ["bad", "good"], AS_CONFIGURED),
        ("rerank", "r", ["fair"], AS_CONFIGURED),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2")],
)
async def test_vllm_names_the_two_sides_in_several_ways(
    ranked: httpx.AsyncClient, first: str, second: str
) -> None:
    response = await ranked.post("/score", json={first: "q", second: "good"})
    assert [one["score"] for one in response.json()["data"]] == [GOOD]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text_1": "q"}, "text_2"),
        ({"text_2": "a"}, "text_1"),
        ({"text_1": ["q", "r"], "text_2": "a"}, "text_1"),
        ({"text_1": ["q", "r"], "text_2": ["a", "b", "c"]}, "text_1"),
        ({"text_1": [], "text_2": []}, "text_1"),
        ({"text_1": ["q", " "], "text_2": ["a", "b"]}, "text_1[1]"),
        ({"text_1": ["q", "r" * 101], "text_2": ["a", "b"]}, "text_1[1]"),
        ({"text_1": {"content": []}, "text_2": "a"}, "text_1"),
        ({"queries": ["q", 5], "documents": ["a", "b"]}, "queries[1]"),
    ],
)
async def test_pairs_that_are_none_are_422_naming_the_side(
    client: httpx.AsyncClient, gateway: RecordingGateway, body: dict[str, Any], param: str
) -> None:
    response = await client.post("/score", json=body)
    assert response.status_code == 422
    assert response.json()["error"]["param"] == param
    assert gateway.calls == []


async def test_a_thousand_queries_are_scored_with_a_text_each() -> None:
    logits = {f"text {n}": n / 100 for n in range(1000)}
    async with serving_defaults(RankingGateway(logits)) as client:
        body = {
            "text_1": [f"query {n}" for n in range(1000)],
            "text_2": list(logits),
            "use_activation": False,
        }
        data = (await client.post("/score", json=body)).json()["data"]
    assert [one["score"] for one in data] == list(logits.values())


async def test_no_scoring_starts_when_the_time_is_over(
    ranked: httpx.AsyncClient, ranking: RankingGateway
) -> None:
    ranking.delay_s = 0.05
    body = {"text_1": [f"q{n}" for n in range(40)], "text_2": ["good"] * 40}
    response = await ranked.post("/score", json=body, headers={"X-Request-Timeout-Ms": "20"})
    assert response.status_code == 504
    assert len(ranking.calls) < 40
