"""An application without models of its own: services outside score, write variants and search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from ray import serve

from deployments.app import build
from deployments.auth import digest_of
from deployments.config import AppArgs, IndexArgs
from deployments.tracker_options import TrackerArgs
from tests.deployments.providers.service import Reply, Service
from tests.e2e.test_variants import put, replicas, search, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]

NAME = "remote"
QUERY = "heron dawn"
FIRST, SECOND = "cohere/one", "jina/two"
# Relevance by a word of the text, as all the services here judge.
RELEVANCE = {"fishes": 0.3, "nests": 0.9, "sleeps": 0.05}


class Outside:
    """All services at once: two rerankers, a chat endpoint and a search."""

    def __init__(self) -> None:
        self.rerankers = {"/v2/rerank": Service(), "/v1/rerank": Service()}
        self.chat, self.web = Service(), Service()
        self.reset()

    def reset(self) -> None:
        for reranker in self.rerankers.values():
            reranker.answer = rank
            reranker.asked.clear()
        self.chat.says(Reply({"choices": [{"message": {"content": "heron at dawn"}}]}))
        self.web.says(Reply({"results": [{"text": "The web nests.", "url": "http://w/1"}]}))

    def down(self, *paths: str) -> None:
        for path in paths:
            self.rerankers[path].says(Reply({"message": "no"}, status=503))

    def close(self) -> None:
        for service in (*self.rerankers.values(), self.chat, self.web):
            service.close()


def rank(body: Any) -> Reply:
    scores = [
        next((score for word, score in RELEVANCE.items() if word in text), 0.01)
        for text in body["documents"]
    ]
    results = [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]
    return Reply({"results": results})


@pytest.fixture(scope="module")
def services() -> Iterator[Outside]:
    running = Outside()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def fresh(services: Outside) -> None:
    services.reset()


@pytest.fixture(scope="module")
def http(
    cluster: int, services: Outside, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("remote")
    first = services.rerankers["/v2/rerank"].url
    second = services.rerankers["/v1/rerank"].url
    jina = {"dialect": "jina", "base_url": second, "model": "two", "retries": 0}
    args = AppArgs.model_validate(
        {
            "scorer": {"dialect": "cohere", "base_url": first, "model": "one", "retries": 0},
            "fallback": [{**jina, "correct_threshold": 0.2, "incorrect_threshold": 0.1}],
            "shadow": [{**jina, "name": "shadow"}],
            "chat": {"base_url": services.chat.url, "model": "writer", "retries": 0},
            "web_search": {"base_url": services.web.url, "retries": 0},
            "auth": {"api_keys": [key_of("app", "read"), key_of("ops", "admin")]},
            "embedder": None,
            "index": IndexArgs(uri=str(folder / "index")),
            "tracker": TrackerArgs(path=str(folder / "tracker.duckdb"), start_jitter_s=0.0),
            "search": {"corrective": {"enabled": True}, "rerank": {"enabled": True}},
        }
    )
    serve.run(build(args), name=NAME)
    headers = {"Authorization": "Bearer ops"}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{cluster}", timeout=30, headers=headers
    ) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200)
        put(
            client,
            {"id": "a", "text": "The heron fishes at dawn.", "metadata": {"secret": "x"}},
            {"id": "b", "text": "The heron nests at dawn."},
            {"id": "c", "text": "The heron sleeps at dawn."},
        )
        yield client
    serve.delete(NAME)


def key_of(key: str, role: str) -> dict[str, str]:
    """A key that is its own name, and of the tenant `acme`."""
    return {"name": key, "sha256": digest_of(key), "tenant": "acme", "role": role}


def documents(answer: dict[str, Any]) -> list[str]:
    return [hit["document_id"] for hit in answer["hits"]]


def test_a_remote_scorer_grades_and_ranks_by_relevance_and_no_scorer_is_deployed(
    http: httpx.Client, services: Outside
) -> None:
    answer = search(http, QUERY).json()
    assert documents(answer) == ["b", "a"]
    assert (answer["verdict"], answer["model"], answer["degraded"]) == ("correct", FIRST, [])
    assert answer["hits"][0]["scores"]["cross_encoder"] == {"logit": None, "relevance": 0.9}
    assert (answer["forward_passes"], answer["reused_scores"]) == (3, 2)
    assert replicas(http, "Scorer") == []
    assert http.get("/v1/status").json()["model"] == FIRST
    assert search(http, QUERY).json()["forward_passes"] == 0
    (asked,) = services.rerankers["/v2/rerank"].bodies
    assert "secret" not in json.dumps(asked)


def test_a_key_opens_what_its_role_allows_and_no_key_nothing(http: httpx.Client) -> None:
    def status(key: str, method: str, path: str, **body: Any) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return http.request(method, path, headers=headers, json=body or None).status_code

    assert status("wrong", "POST", "/v1/search", query="q") == 401
    assert status("app", "POST", "/v1/search", query="q") == 200
    assert status("app", "GET", "/v1/corpora") == 200
    assert status("app", "GET", "/v1/status") == 403
    assert status("app", "DELETE", "/v1/corpora/default") == 403
    assert status("wrong", "GET", "/healthz") == 200


def test_plain_texts_are_ranked_by_the_remote_scorer_too(http: httpx.Client) -> None:
    body = {"query": "q", "documents": ["sleeps", "nests"]}
    answer = http.post("/v1/rerank", json=body).json()
    assert [(one["index"], one["relevance_score"]) for one in answer["results"]] == [
        (1, 0.9),
        (0, 0.05),
    ]


def test_what_was_served_is_compared_with_the_shadow_and_kept(http: httpx.Client) -> None:
    retrieval_id = search(http, "heron dawn fishes").json()["retrieval_id"]

    def rows() -> list[dict[str, Any]]:
        found = http.get("/v1/reports/comparisons").json()["items"]
        return [row for row in found if row["retrieval_id"] == retrieval_id]

    wait_until(rows)
    (row,) = rows()
    assert (row["served_model"], row["model"]) == (FIRST, "shadow/two")
    assert (row["pairs"], row["kendall"], row["overlap"], row["error"]) == (3, 1.0, 1.0, None)


def test_a_rewritten_question_is_searched_and_judged(http: httpx.Client, services: Outside) -> None:
    history = [{"role": "user", "content": "Tell me of herons."}]
    answer = search(http, "and at dawn?", history=history, expansion=True).json()
    assert answer["rewritten_query"] == "heron at dawn"
    assert services.rerankers["/v2/rerank"].bodies[0]["query"] == "heron at dawn"
    assert documents(answer) == ["b", "a"]


def test_a_chat_endpoint_that_is_down_leaves_the_query_and_is_named(
    http: httpx.Client, services: Outside
) -> None:
    services.chat.says(Reply(status=500))
    answer = search(http, QUERY, expansion={"multi_query": 2}).json()
    assert (answer["degraded"], documents(answer)) == (["expansion"], ["b", "a"])


def test_where_nothing_is_correct_the_web_is_asked_and_marked(
    http: httpx.Client, services: Outside
) -> None:
    strict = {"correct_threshold": 0.5, "incorrect_threshold": 0.4, "fallback": "http"}
    answer = search(http, "fishes sleeps", corrective=strict).json()
    (hit,) = answer["hits"]
    assert (hit["origin"], hit["source"], hit["metadata"]) == ("http", "http://w/1", {})
    assert (answer["verdict"], answer["corrections"]) == ("correct", 1)
    services.web.says(Reply(status=500))
    answer = search(http, "fishes sleeps", corrective=strict).json()
    assert (answer["hits"], answer["degraded"]) == ([], ["fallback"])
    assert answer["verdict"] == "incorrect"


def test_the_next_scorer_takes_the_whole_pool_and_grades_by_its_own_thresholds(
    http: httpx.Client, services: Outside
) -> None:
    services.down("/v2/rerank")
    answer = search(http, "the heron at dawn").json()
    assert (answer["model"], answer["degraded"]) == (SECOND, [])
    assert [(h["document_id"], h["grade"]) for h in answer["hits"]] == [
        ("b", "correct"),
        ("a", "correct"),
    ]
    services.reset()
    wait_until(lambda: search(http, "heron dawn again").json()["model"] == FIRST)


def test_with_every_scorer_down_search_answers_in_retrieval_order_and_recovers(
    http: httpx.Client, services: Outside
) -> None:
    plain = search(http, "dawn heron", corrective=False, rerank=False).json()
    services.down("/v2/rerank", "/v1/rerank")
    answer = search(http, "dawn heron").json()
    assert (answer["degraded"], answer["verdict"]) == (["correct", "rerank"], None)
    assert documents(answer) == documents(plain)
    assert [hit["scored"] for hit in answer["hits"]] == [False, False, False]
    services.reset()
    wait_until(lambda: search(http, "dawn heron").json()["degraded"] == [])
