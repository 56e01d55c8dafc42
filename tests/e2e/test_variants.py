"""Applications that differ from the shipped one, deployed on one cluster from Python."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
from ray import serve

from deployments.app import build
from deployments.config import AppArgs, IndexArgs
from deployments.options import ConfigError
from deployments.tracker_options import TrackerArgs
from tests.e2e.streaming import Stream, resident_mib

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]

NAME = "plain"


@pytest.fixture(scope="module")
def args(tmp_path_factory: pytest.TempPathFactory) -> AppArgs:
    """No model at all: BM25, no correction, no reranking."""
    folder = tmp_path_factory.mktemp("plain")
    return AppArgs(
        scorer=None,
        embedder=None,
        index=IndexArgs(uri=str(folder / "index")),
        tracker=TrackerArgs(path=str(folder / "tracker.duckdb"), start_jitter_s=0.0),
    )


@pytest.fixture(scope="module")
def http(cluster: int, args: AppArgs) -> Iterator[httpx.Client]:
    serve.run(build(args), name=NAME)
    with httpx.Client(base_url=f"http://127.0.0.1:{cluster}", timeout=30) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200)
        yield client
    serve.delete(NAME)


def wait_until(condition: Any, seconds: float = 30) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.1)


def put(http: httpx.Client, *documents: dict[str, Any]) -> None:
    answer = http.put("/v1/corpora/default/documents", json={"documents": documents})
    assert {one["status"] for one in answer.json()["documents"]} <= {"stored", "unchanged"}


def search(http: httpx.Client, query: str, **options: Any) -> httpx.Response:
    return http.post("/v1/search", json={"query": query, **options})


def replicas(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/v1/status").json()["deployments"].get(name, [])
    return found


def test_without_models_search_is_bm25_in_fused_order(http: httpx.Client) -> None:
    put(
        http,
        {"id": "a", "text": "The heron fishes at dawn."},
        {"id": "b", "text": "The wren nests in ivy, says the heron."},
    )
    answer = search(http, "heron dawn").json()
    assert [hit["document_id"] for hit in answer["hits"]] == ["a", "b"]
    assert {leg["leg"] for hit in answer["hits"] for leg in hit["legs"]} == {"bm25"}
    assert (answer["verdict"], answer["forward_passes"], answer["degraded"]) == ("off", 0, [])


def test_without_a_scorer_what_needs_one_is_422_naming_it(http: httpx.Client) -> None:
    for part in ("corrective", "rerank"):
        response = search(http, "q", **{part: True})
        assert (response.status_code, response.json()["error"]["param"]) == (422, part)
        assert "scorer" in response.json()["error"]["message"]
    body = {"query": "q", "documents": ["a"]}
    response = http.post("/v1/rerank", json=body)
    assert (response.status_code, response.json()["error"]["type"]) == (422, "invalid_input")
    assert "scorer" in response.json()["error"]["message"]


def test_without_a_scorer_none_runs_and_the_composer_loads_no_onnx_runtime(
    http: httpx.Client,
) -> None:
    assert (replicas(http, "Scorer"), replicas(http, "Embedder")) == ([], [])
    (composer,) = replicas(http, "Composer")
    loaded = Path(f"/proc/{composer['pid']}/maps").read_text()
    assert "numpy" in loaded
    assert "onnxruntime" not in loaded


def test_what_one_replica_was_not_asked_every_replica_sees(
    http: httpx.Client, args: AppArgs
) -> None:
    application = build(args)
    serve.run(scaled(application, 2), name=NAME)
    wait_until(lambda: len(replicas(http, "Retrieval")) == 2)
    for number in range(20):
        text = f"Ledger entry {number} mentions quartz{number}."
        put(http, {"id": f"ledger-{number}", "text": text})
        answer = search(http, f"quartz{number}").json()
        assert [hit["document_id"] for hit in answer["hits"]] == [f"ledger-{number}"]
    served = [replica["searches"] for replica in replicas(http, "Retrieval")]
    assert all(count > 0 for count in served), served


def scaled(application: serve.Application, count: int) -> serve.Application:
    """Ask for more Retrieval replicas, as `deployments:` in serve_config.yaml would."""
    ingress = application._bound_deployment
    retrieval = ingress.init_args[0]["Retrieval"]._bound_deployment
    retrieval._deployment_config.num_replicas = count
    return application


def test_messages_beyond_the_cap_of_a_handle_go_through(http: httpx.Client) -> None:
    chunks = [f"Chapter {n} tells of feldspar. " + "x" * 80_000 for n in range(60)]
    for number in range(5):
        part = chunks[number * 12 : (number + 1) * 12]
        put(http, {"id": f"book-{number}", "chunks": part})
    answer = search(http, "feldspar", top_k=60, final_top_k=60, include_context=False)
    assert answer.status_code == 200
    assert len(answer.content) > 4 * 2**20
    assert len(answer.json()["hits"]) == 60
    many = {"id": "many", "chunks": [f"Line {n}." for n in range(3000)]}
    put(http, many)
    metadata = {"id": "m", "text": "t", "metadata": {"k": "x" * 70_000}}
    refused = http.put("/v1/corpora/default/documents", json={"documents": [metadata]})
    assert refused.status_code == 413
    assert refused.json()["error"]["param"] == "documents[0].metadata"


def test_a_stream_of_20_000_documents_is_answered_as_it_goes_with_flat_memory(
    http: httpx.Client,
) -> None:
    with Stream(http, "stream", documents=20_000, ahead=1_000) as stream:
        first = stream.take(64)
        assert not stream.is_sent
        fields = {"status": "stored", "chunks": 1, "error": None}
        assert first[0] == {"line": 1, "id": "d00000", **fields}
        answers = first + stream.take(2_000)
        early = resident_mib(f"{NAME}:Ingress", "ProxyActor")
        answers += stream.take(None)
        late = resident_mib(f"{NAME}:Ingress", "ProxyActor")
    assert [answer["id"] for answer in answers] == [f"d{n:05}" for n in range(20_000)]
    assert {answer["status"] for answer in answers} == {"stored"}
    assert all(0 < late[name] < early[name] + 20 for name in early), (early, late)
    assert http.get("/v1/corpora/stream").json()["documents"] == 20_000


def test_a_client_that_leaves_a_stream_stops_it_and_what_was_answered_is_stored(
    http: httpx.Client,
) -> None:
    with Stream(http, "left", documents=20_000, ahead=20_000) as stream:
        answered = stream.take(100)
    wait_until(lambda: stored(http, "left") == stored(http, "left", after_s=1.0))
    names = stored(http, "left")
    assert len(answered) <= len(names) < 20_000
    assert names == [f"d{n:05}" for n in range(len(names))]


def test_corpora_and_documents_are_listed_shown_and_dropped(http: httpx.Client) -> None:
    metadata = {"year": 1999, "tags": ["a", None]}
    book = {"id": "shelf/book 1", "title": "Book", "source": "https://b/1", "metadata": metadata}
    for corpus in ("kept", "dropped"):
        path = f"/v1/corpora/{corpus}/documents"
        http.put(path, json={"documents": [{**book, "chunks": ["one", "two"]}]})
    shown = http.get("/v1/corpora/kept/documents/shelf/book%201").json()
    assert shown == {"corpus": "kept", **book, "chunks": ["one", "two"]}
    counted = {"documents": 1, "chunks": 2}
    assert {"corpus": "kept", **counted} in listed(http, "/v1/corpora")
    assert http.delete("/v1/corpora/dropped").json() == {"corpus": "dropped", "deleted": True}
    for method, path in (("GET", "dropped"), ("DELETE", "dropped"), ("GET", "dropped/documents")):
        assert http.request(method, f"/v1/corpora/{path}").status_code == 404
    assert "dropped" not in [item["corpus"] for item in listed(http, "/v1/corpora")]
    assert http.get("/v1/corpora/kept").json() == {"corpus": "kept", **counted}


def test_a_search_is_found_again_with_its_hits_and_feedback(http: httpx.Client) -> None:
    put(http, {"id": "found", "text": "A malachite bead."})
    asked = [search(http, "malachite bead").json()["retrieval_id"] for _ in range(5)]
    shown = http.get(f"/v1/retrievals/{asked[-1]}").json()  # waits for the record
    assert (shown["query"], shown["corpus"]) == ("malachite bead", "default")
    assert [hit["document_id"] for hit in shown["hits"]] == ["found"]
    assert shown["feedback"] == []
    body = {"retrieval_id": asked[-1], "document_id": "found", "outcome": "relevant"}
    assert http.post("/v1/feedback", json=body).status_code == 200
    given = http.get(f"/v1/retrievals/{asked[-1]}").json()["feedback"]
    assert [(one["document_id"], one["outcome"]) for one in given] == [("found", "relevant")]
    newest = [item["retrieval_id"] for item in listed(http, "/v1/retrievals")]
    assert newest[:5] == asked[::-1]
    assert len(newest) == len(set(newest))
    assert http.get("/v1/retrievals/none").status_code == 404


def listed(http: httpx.Client, path: str) -> list[dict[str, Any]]:
    """All items of a list, in small pages where it is short."""
    items: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        page = http.get(path, params={"limit": "2" if len(items) < 10 else "1000", **token}).json()
        items += page["items"]
        if page["next"] is None:
            return items
        token = {"next": page["next"]}


def stored(http: httpx.Client, corpus: str, after_s: float = 0.0) -> list[str]:
    """The ids of a corpus's documents, read after a while."""
    time.sleep(after_s)
    return [item["id"] for item in listed(http, f"/v1/corpora/{corpus}/documents")]


def test_a_retrieval_replica_that_is_killed_loses_no_request(http: httpx.Client) -> None:
    put(http, {"id": "kept", "text": "An obsidian knife."})
    os.kill(replicas(http, "Retrieval")[0]["pid"], signal.SIGKILL)
    for _ in range(10):
        answer = search(http, "obsidian").json()
        assert (answer["degraded"], answer["hits"][0]["document_id"]) == ([], "kept")


def test_tracking_survives_a_killed_recorder(http: httpx.Client) -> None:
    put(http, {"id": "tracked", "text": "A basalt column."})
    first = search(http, "basalt").json()
    body = {
        "retrieval_id": first["retrieval_id"],
        "document_id": "tracked",
        "outcome": "relevant",
    }
    assert http.post("/v1/feedback", json=body).status_code == 200
    (recorder,) = replicas(http, "Recorder")
    os.kill(recorder["pid"], signal.SIGKILL)
    during = search(http, "basalt")
    assert (during.status_code, during.json()["degraded"]) == (200, [])
    later = {**body, "retrieval_id": during.json()["retrieval_id"]}
    wait_until(lambda: http.post("/v1/feedback", json=later).status_code == 200, 60)
    assert http.post("/v1/feedback", json=body).status_code == 200


def test_retention_ran_and_is_shown(http: httpx.Client) -> None:
    wait_until(lambda: http.get("/v1/status").json()["retention"]["last_success"], 60)
    assert http.get("/v1/status").json()["retention"]["last_error"] is None


def test_a_configuration_that_cannot_start_is_refused_in_one_line(args: AppArgs) -> None:
    with pytest.raises(ConfigError, match=r"needs 100\.6 CPUs at least and the cluster has 4"):
        build(AppArgs.model_validate({"scorer": {"num_cpus": 100.0}}))


def test_deleting_the_application_leaves_no_actor(http: httpx.Client) -> None:
    assert actors("Retention") == 1
    serve.delete(NAME)
    wait_until(lambda: actors("Retention") == 0 and actors("ServeReplica") == 0)


def actors(kind: str) -> int:
    """Count this application's living actors of a class, by the names that Serve gives them."""
    marks = {"Retention": "SERVE_DEPLOYMENT_ACTOR::", "ServeReplica": "SERVE_REPLICA::"}
    names = ray.util.list_named_actors(all_namespaces=True)
    return sum(one["name"].startswith(marks[kind] + NAME) for one in names)
