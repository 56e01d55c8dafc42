"""The shipped configuration, run by `serve run` and asked over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import lancedb
import pytest

from deployments.stores.lance_rows import table_name
from pipeline.documents import CorpusKey
from tests.e2e.serving import ROOT, Server

pytestmark = pytest.mark.slow

QUESTIONS = [
    json.loads(line) for line in (ROOT / "examples" / "questions.jsonl").read_text().splitlines()
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("serve"))
    running.start()
    ingested = running.onepass("ingest", "examples/corpus")
    assert "40 stored" in ingested.stdout, ingested.stderr
    yield running
    running.stop()


def kinds(answer: dict[str, Any]) -> set[str]:
    return {hit["score_kind"] for hit in answer["hits"]}


def test_a_question_about_an_example_comes_back_with_its_document_first(server: Server) -> None:
    before = server.status()["counters"]
    question = QUESTIONS[0]
    answer = server.search(question["question"])
    assert answer["hits"][0]["document_id"] == question["document_id"]
    assert (answer["rerank_applied"], answer["verdict"]) == (True, "correct")
    assert answer["degraded"] == []
    after = server.status()["counters"]
    assert answer["forward_passes"] == after["pairs_scored"] - before["pairs_scored"] == 30
    assert answer["cached_scores"] == answer["shared_scores"] == 0
    assert answer["reused_scores"] == len(
        [
            way
            for way in server.search(question["question"], include_trace=True)["trace"]["hits"]
            if way["grade"] != "incorrect"
        ]
    )


def test_the_same_question_again_costs_no_forward_pass(server: Server) -> None:
    first = server.search("Where do I leave my car?")
    again = server.search("Where do I leave my car?")
    assert first["forward_passes"] > 0
    assert (again["forward_passes"], again["cached_scores"]) == (0, first["forward_passes"])
    assert again["hits"] == first["hits"]


def test_every_example_question_finds_its_document_first(server: Server) -> None:
    first = {
        question["question"]: server.search(question["question"])["hits"][0]["document_id"]
        for question in QUESTIONS
    }
    assert first == {question["question"]: question["document_id"] for question in QUESTIONS}


def test_correction_alone_keeps_survivors_in_logit_order(server: Server) -> None:
    answer = server.search(QUESTIONS[1]["question"], rerank=False)
    logits = [hit["scores"]["cross_encoder"]["logit"] for hit in answer["hits"]]
    assert logits == sorted(logits, reverse=True)
    assert answer["rerank_applied"] is False
    assert {hit["grade"] for hit in answer["hits"]} <= {"correct", "ambiguous"}


def test_reranking_alone_sorts_and_grades_nothing(server: Server) -> None:
    answer = server.search(QUESTIONS[1]["question"], corrective=False)
    assert (answer["verdict"], answer["rerank_applied"]) == ("off", True)
    assert len(answer["hits"]) == 10
    assert {hit["grade"] for hit in answer["hits"]} == {None}
    assert kinds(answer) == {"cross_encoder"}


def test_neither_answers_in_fused_order_without_a_pass(server: Server) -> None:
    answer = server.search(QUESTIONS[1]["question"], corrective=False, rerank=False)
    assert (answer["verdict"], answer["forward_passes"], answer["model"]) == ("off", 0, None)
    assert kinds(answer) == {"fusion"}
    assert {leg["leg"] for hit in answer["hits"] for leg in hit["legs"]} == {"dense", "bm25"}


def test_a_document_is_found_by_the_very_next_search_and_gone_after_its_delete(
    server: Server,
) -> None:
    stored = server.put("fresh", {"id": "a", "text": "The zebrafish tank is fed at noon."})
    assert stored.json()["documents"] == [
        {"id": "a", "status": "stored", "chunks": 1, "error": None}
    ]
    answer = server.search("When is the zebrafish tank fed?", corpus="fresh")
    assert [hit["document_id"] for hit in answer["hits"]] == ["a"]
    server.put("fresh", {"id": "a", "text": "The zebrafish tank is fed at dusk."})
    answer = server.search("When is the zebrafish tank fed?", corpus="fresh")
    assert [hit["text"] for hit in answer["hits"]] == ["The zebrafish tank is fed at dusk."]
    assert server.http.delete("/v1/corpora/fresh/documents/a").status_code == 200
    answer = server.search("When is the zebrafish tank fed?", corpus="fresh")
    assert (answer["hits"], answer["verdict"], answer["forward_passes"]) == ([], "no_hits", 0)


def test_a_corpus_that_does_not_exist_is_404(server: Server) -> None:
    response = server.http.post("/v1/search", json={"query": "q", "corpus": "nowhere"})
    assert (response.status_code, response.json()["error"]["param"]) == (404, "corpus")


def test_a_second_ingest_stores_only_what_changed(server: Server) -> None:
    assert server.onepass("ingest", "examples/corpus").stdout == "default: 40 unchanged\n"


def test_the_index_is_brought_up_to_date_after_a_write(server: Server) -> None:
    def rounds() -> int:
        (indexer,) = server.status()["deployments"]["Indexer"]
        done: int = indexer["maintenance_rounds"]
        return done

    before = rounds()
    server.put("fresh", {"id": "b", "text": "A second tank holds seahorses."})
    server.wait_until(lambda: rounds() > before, 30)
    answer = server.search("Where are the seahorses?", corpus="fresh")
    assert [hit["document_id"] for hit in answer["hits"]] == ["b"]


def test_filters_act_before_the_limit(server: Server) -> None:
    documents = [
        {"id": str(n), "text": f"Note {n} about the meridian.", "metadata": {"year": 2000 + n}}
        for n in range(12)
    ]
    server.put("notes", *documents)
    answer = server.search(
        "meridian",
        corpus="notes",
        top_k=3,
        final_top_k=3,
        corrective=False,
        filter={"field": "year", "gte": 2010},
    )
    assert {hit["id"] for hit in answer["hits"]} == {"10#0", "11#0"}


def test_reserved_keys_are_refused_and_the_same_planted_in_the_index_change_nothing(
    server: Server,
) -> None:
    refused = server.put(
        "planted", {"id": "bad", "text": "t", "metadata": {"_crossEncoderScore": {"logit": 99}}}
    )
    assert refused.status_code == 422
    assert refused.json()["error"]["param"] == "documents[0].metadata._crossEncoderScore"
    server.put(
        "planted",
        {"id": "good", "text": "The dome is opened by turning the red key twice."},
        {"id": "bad", "text": "Bananas are sold by weight on the market."},
    )
    question = "How do I open the dome?"
    clean = server.search(question, corpus="planted", corrective=False)
    asyncio.run(plant(server, "bad#0"))
    planted = server.search(question, corpus="planted", corrective=False)
    assert [hit["id"] for hit in planted["hits"]] == ["good#0", "bad#0"]
    assert [hit["scores"] for hit in planted["hits"]] == [hit["scores"] for hit in clean["hits"]]
    assert planted["hits"][1]["metadata"] == {"kept": 1}
    assert planted["rerank_applied"]
    body = {
        "retrieval_id": planted["retrieval_id"],
        "document_id": "bad",
        "outcome": "not_relevant",
    }
    assert server.http.post("/v1/feedback", json=body).status_code == 200


async def plant(server: Server, chunk: str) -> None:
    """Write reserved keys straight into the index, past the API."""
    metadata = {
        "_crossEncoderScore": {"logit": 99.0, "relevance": 1.0},
        "_reranked": "yes",
        "_tracked": "yes",
        "_grade": "correct",
        "kept": 1,
    }
    connection = await lancedb.connect_async(str(server.home / "data" / "index"))
    table = await connection.open_table(table_name(CorpusKey("default", "planted")))
    rows = (await table.query().where(f"id = '{chunk}'").to_arrow()).to_pylist()
    rows[0]["metadata"] = json.dumps(metadata)
    await table.delete(f"id = '{chunk}'")
    await table.add(rows)


def test_feedback_is_kept_for_known_retrievals_and_documents_only(server: Server) -> None:
    answer = server.search(QUESTIONS[2]["question"])
    known = {
        "retrieval_id": answer["retrieval_id"],
        "document_id": answer["hits"][0]["document_id"],
        "outcome": "highly_relevant",
    }
    assert server.http.post("/v1/feedback", json=known).status_code == 200
    for wrong in ({"retrieval_id": "0" * 32}, {"document_id": "no-such-document"}):
        response = server.http.post("/v1/feedback", json={**known, **wrong})
        assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found")


def test_a_purge_counts_first_and_then_deletes(server: Server) -> None:
    future = {"before": (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()}
    assert server.http.post("/v1/admin/purge", json=future).status_code == 422
    server.search(QUESTIONS[3]["question"])
    server.wait_until(lambda: is_recorded(server), 10)
    held = server.status()["tracker"]
    before = datetime.now(timezone.utc).isoformat()
    dry = server.onepass("purge", "--before", before, "--dry-run")
    assert dry.stdout.startswith(f"would delete: {held['retrievals']} retrievals, ")
    assert held["retrievals"] > 0
    wet = server.onepass("purge", "--before", before)
    assert wet.stdout.removeprefix("deleted") == dry.stdout.removeprefix("would delete")
    left = server.status()["tracker"]
    assert (left["retrievals"], left["hits"], left["feedback"]) == (0, 0, 0)


def is_recorded(server: Server) -> bool:
    """Whether every search so far has been written down."""
    (composer,) = server.status()["deployments"]["Composer"]
    sent: int = composer["records_sent"]
    return bool(sent == composer["searches"])


def test_rerank_answers_in_jinas_shape_for_the_published_pair(server: Server) -> None:
    passages = [
        "New York City is famous for the Metropolitan Museum of Art.",
        "Berlin has a population of 3,520,031 registered inhabitants in an area of "
        "891.82 square kilometers.",
    ]
    body = {"query": "How many people live in Berlin?", "documents": passages, "top_n": 2}
    answer = server.http.post("/v1/rerank", json=body).json()
    assert [result["index"] for result in answer["results"]] == [1, 0]
    assert [result["logit"] for result in answer["results"]] == [
        pytest.approx(9.267, abs=0.01),
        pytest.approx(-11.187, abs=0.01),
    ]
    assert answer["usage"]["total_tokens"] == 34 + 22


def test_a_document_that_is_cut_where_the_request_says_has_another_score(server: Server) -> None:
    document = "The observatory opens at dusk. " * 20
    body = {"query": "When does it open?", "documents": [document, "It opens at noon."]}
    whole = server.http.post("/v1/rerank", json=body).json()
    cut = server.http.post("/v1/rerank", json={**body, "max_tokens_per_doc": 6}).json()
    first, second = (
        sorted(one["results"], key=lambda result: result["index"]) for one in (whole, cut)
    )
    assert [(result["truncated"], result["tokens"]) for result in second] == [
        (True, 14),
        (False, 13),
    ]
    assert first[0]["truncated"] is False
    assert first[0]["logit"] != second[0]["logit"]
    assert first[1]["logit"] == pytest.approx(second[1]["logit"], abs=1e-4)
    assert cut["meta"]["forward_passes"] == 2


# Long enough that a queue builds up, in which most are left behind.
TEXTS = [f"{word} of the old town " * 20 for word in ["the", "a", "one", "no", "any"]]


@pytest.mark.parametrize(
    ("path", "fields", "wait_s"),
    [("/v1/rerank", {"documents": TEXTS}, 0.01), ("/v1/search", {}, 0.1)],
)
async def test_what_clients_that_leave_had_asked_for_is_dropped(
    server: Server, path: str, fields: dict[str, Any], wait_s: float
) -> None:
    async def ask_and_leave(client: httpx.AsyncClient, number: int) -> bool:
        body = {"query": f"question {number}", **fields}
        try:
            await client.post(path, json=body, timeout=wait_s * (number % 30 + 1))
        except httpx.TimeoutException:
            return True
        return False

    def dropped() -> int:
        count: int = server.status()["deployments"]["Scorer"][0]["counters"]["pairs_dropped"]
        return count

    before = dropped()
    connections = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, limits=connections) as client:
        left = await asyncio.gather(*(ask_and_leave(client, number) for number in range(300)))
    assert sum(left) > 30

    def is_idle() -> bool:
        (scorer,) = server.status()["deployments"]["Scorer"]
        return (scorer["pairs_in_flight"], scorer["queued_tokens"]) == (0, 0)

    server.wait_until(is_idle, 30)
    assert dropped() > before
    assert server.search(QUESTIONS[0]["question"])["degraded"] == []


def test_the_command_shows_a_table(server: Server) -> None:
    shown = server.onepass("search", QUESTIONS[0]["question"], "-k", "2")
    assert QUESTIONS[0]["document_id"] in shown.stdout
    assert "verdict correct" in shown.stdout


def test_garbage_over_real_http_is_a_clear_4xx(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    for content, status in (
        (b"{", 400),
        (b'{"query": ""}', 422),
        (b'{"query": "q", "k": 1}', 422),
        (b" " * (16 * 2**20 + 1), 413),
    ):
        response = server.http.post("/v1/search", content=content, headers=headers)
        assert response.status_code == status
        assert response.json()["error"]["request_id"] == response.headers["X-Request-Id"]


def test_the_status_shows_the_provider_in_use_and_the_retention_run(server: Server) -> None:
    server.wait_until(lambda: server.status()["retention"]["last_success"], 90)
    status = server.status()
    assert status["missing"] == []
    assert status["providers"]["Scorer"] == ["CPUExecutionProvider"]
    assert status["model"].startswith("ms-marco-MiniLM-L-12-v2@")
    assert status["tracker"]["new_file"] is True
    assert status["retention"]["deleted"] == 0


def test_thresholds_change_without_a_restart_or_a_failed_request(server: Server) -> None:
    before = server.pids()
    config = server.configured()
    (composer,) = [
        part for part in config["applications"][0]["deployments"] if part["name"] == "Composer"
    ]
    composer["user_config"]["corrective"]["correct_threshold"] = 0.9
    deploying = server.deploy(config)
    answers = []
    while deploying.poll() is None or threshold(server) != 0.9:
        answers.append(server.http.post("/v1/search", json={"query": "Which bus goes there?"}))
        assert len(answers) < 2000
    assert deploying.returncode == 0
    assert {answer.status_code for answer in answers} == {200}
    assert server.pids() == before


def threshold(server: Server) -> float:
    (composer,) = server.status()["deployments"]["Composer"]
    value: float = composer["search"]["corrective"]["correct_threshold"]
    return value


def test_a_killed_scorer_degrades_searches_and_comes_back_by_itself(server: Server) -> None:
    question = "Is there somewhere to sleep for the night?"
    (scorer,) = server.status()["deployments"]["Scorer"]
    os.kill(scorer["pid"], signal.SIGKILL)
    # Less time than a new replica needs to load the model: the answer must not wait for it.
    response = server.http.post(
        "/v1/search", json={"query": question}, headers={"X-Request-Timeout-Ms": "2000"}
    )
    answer = response.json()
    plain = server.search(question, corrective=False, rerank=False)
    assert (response.status_code, answer["degraded"]) == (200, ["correct", "rerank"])
    assert [hit["id"] for hit in answer["hits"]] == [hit["id"] for hit in plain["hits"]]
    assert {hit["scored"] for hit in answer["hits"]} == {False}
    assert (answer["verdict"], answer["rerank_applied"]) == (None, False)
    server.wait_until(lambda: server.search(question)["degraded"] == [], 60)
    assert server.search(question)["rerank_applied"]
