from __future__ import annotations

from typing import Any

import pytest

from deployments.cli.client import Client, ClientError
from deployments.cli.evaluating import (
    STAGES,
    Absent,
    StageResult,
    evaluate_stages,
    remarks,
)
from deployments.cli.judgements import JudgedQuery
from pipeline.metrics import Quality
from tests.deployments.cli.server import Answer, SmallServer, hit, refusal, search_answer

QUERIES = [
    JudgedQuery("1", "first", {"a": 1}),
    JudgedQuery("2", "second", {"b": 1}),
    JudgedQuery("3", "third", {"b": 0}),
]


def evaluate(answer: Answer) -> dict[str, StageResult | Absent]:
    with SmallServer(answer) as server, Client(server.url) as client:
        results = evaluate_stages(client, "docs", QUERIES, 10, lambda: None)
    return {result.stage: result for result in results}


def ranked(method: str, path: str, request: Any) -> tuple[int, Any]:
    """BM25 finds b before a; whatever reranks puts a first; correction costs two passes."""
    assert (method, path) == ("POST", "/v1/search")
    if request["legs"] == ["dense"]:
        return refusal("this needs an embedder, and none is configured", "legs")
    hits = [hit("b"), hit("b", chunk=1), hit("a")]
    if request["rerank"]:
        return 200, search_answer(*hits[::-1], cached_scores=3, timings_ms={"total": 20.0})
    if request["corrective"]:
        return 200, search_answer(forward_passes=2, degraded=["correct"])
    return 200, search_answer(*hits)


def test_every_stage_is_measured_by_documents_at_their_best_chunk() -> None:
    results = evaluate(ranked)
    bm25, both = results["bm25"], results["+ both"]
    assert isinstance(bm25, StageResult)
    assert isinstance(both, StageResult)
    assert list(results) == list(STAGES)
    assert bm25.quality.reciprocal_rank == 0.75
    assert bm25.quality.ndcg == both.quality.ndcg
    assert (bm25.quality.queries, bm25.quality.left_out) == (2, 1)


def test_costs_are_means_a_query_and_degraded_answers_are_counted() -> None:
    results = evaluate(ranked)
    assert results["+ correction"] == StageResult(
        "+ correction",
        Quality(10, 0.0, 0.0, 0.0, 0.0, queries=2, left_out=1),
        passes=2.0,
        cached=0.0,
        p50_ms=10.0,
        degraded=3,
    )
    both = results["+ both"]
    assert isinstance(both, StageResult)
    assert (both.passes, both.cached, both.p50_ms, both.degraded) == (0.0, 3.0, 20.0, 0)


def test_a_stage_that_the_server_cannot_do_is_absent_with_its_reason() -> None:
    results = evaluate(ranked)
    reason = "422 legs: this needs an embedder, and none is configured"
    assert results["dense"] == Absent("dense", reason)
    assert remarks(list(results.values())) == [
        f"dense: not available: {reason}",
        "means over 2 queries; 1 without a relevant document are left out; "
        "passes and scores from the cache are per query; "
        "the searches are recorded like any others",
    ]


def test_a_stage_asks_for_all_candidates_and_leaves_the_rest_to_the_configuration() -> None:
    with SmallServer(ranked) as server, Client(server.url) as client:
        evaluate_stages(client, "docs", QUERIES[:1], 10, lambda: None)
    (first, *_, last) = [request for _, _, request in server.requests]
    common = {
        "query": "first",
        "corpus": "docs",
        "final_top_k": 1000,
        "refine": False,
        "include_context": False,
    }
    assert first == {**common, "legs": ["bm25"], "corrective": False, "rerank": False}
    assert last == {**common, "legs": None, "corrective": True, "rerank": True}


def test_any_other_error_ends_the_evaluation() -> None:
    with pytest.raises(ClientError, match="404 corpus: there is no such corpus"):
        evaluate(lambda *_: refusal("there is no such corpus", "corpus", status=404))
