from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.cli.calibrating import (
    JudgedScore,
    calibrate,
    feedback_scores,
    halves,
    searched_scores,
    write_thresholds,
)
from deployments.cli.client import Client
from deployments.cli.judgements import JudgedQuery
from deployments.options import ConfigError
from pipeline.calibration import Calibration, Errors
from pipeline.errors import InvalidInput
from tests.deployments.cli.server import SmallServer, hit, search_answer

APPLICATION = "applications:\n- import_path: deployments.app:build\n"


def row(outcome: str, relevance: float | None = 0.5, model: str = "m@1") -> dict[str, Any]:
    return {
        "retrieval_id": f"r-{outcome}",
        "document_id": "d",
        "relevance": relevance,
        "model": model,
        "outcome": outcome,
    }


def test_a_relevant_document_counts_at_its_best_chunk_and_every_other_chunk_as_irrelevant() -> None:
    hits = [hit("good", 0.2), hit("good", 0.9, 1), hit("bad", 0.3), hit("bad", 0.1, 1), hit("new")]
    query = JudgedQuery("q", "which?", {"good": 2, "bad": 0})
    with (
        SmallServer(lambda *_: (200, search_answer(*hits))) as server,
        Client(server.url) as client,
    ):
        scores = list(searched_scores(client, "docs", query))
    assert scores == [
        JudgedScore("q", 0.3, relevant=False),
        JudgedScore("q", 0.1, relevant=False),
        JudgedScore("q", 0.9, relevant=True),
    ]


def test_a_calibrating_search_scores_every_candidate_and_drops_none() -> None:
    query = JudgedQuery("q", "which?", {})
    with SmallServer(lambda *_: (200, search_answer())) as server, Client(server.url) as client:
        assert list(searched_scores(client, "docs", query)) == []
    assert server.requests == [
        (
            "POST",
            "/v1/search",
            {
                "query": "which?",
                "corpus": "docs",
                "corrective": False,
                "rerank": {"top_n": None, "append_remaining": True, "min_score": None},
                "final_top_k": 1000,
                "refine": False,
                "include_context": False,
            },
        )
    ]


def test_feedback_counts_for_the_model_now_served_and_leaves_out_the_undecided() -> None:
    rows = [
        row("relevant"),
        row("highly_relevant"),
        row("partially_relevant"),
        row("not_relevant"),
        row("relevant", model="m@0"),
        row("relevant", relevance=None),
    ]

    def answer(method: str, path: str, _: Any) -> tuple[int, Any]:
        return 200, {"model": "m@1"} if path == "/v1/status" else {"items": rows, "next": None}

    with SmallServer(answer) as server, Client(server.url) as client:
        assert feedback_scores(client, "docs") == [
            JudgedScore("r-relevant", 0.5, relevant=True),
            JudgedScore("r-highly_relevant", 0.5, relevant=True),
            JudgedScore("r-not_relevant", 0.5, relevant=False),
        ]


def test_feedback_is_read_page_by_page_to_its_end() -> None:
    pages = [
        {"items": [row("relevant")] * 2, "next": "here"},
        {"items": [row("relevant")], "next": None},
    ]
    with (
        SmallServer(lambda *_: (200, pages.pop(0))) as server,
        Client(server.url) as client,
    ):
        assert len(list(client.judged_scores("my docs"))) == 3
    assert [path for _, path, _ in server.requests] == [
        "/v1/reports/judged-scores?corpus=my+docs&limit=1000",
        "/v1/reports/judged-scores?corpus=my+docs&limit=1000&next=here",
    ]


def test_feedback_says_nothing_where_there_is_no_scorer() -> None:
    with (
        SmallServer(lambda *_: (200, {"model": None})) as server,
        Client(server.url) as client,
        pytest.raises(InvalidInput, match="the server has none"),
    ):
        feedback_scores(client, "docs")


def test_halves_are_by_query_and_do_not_depend_on_the_order() -> None:
    scores = [JudgedScore(str(n // 3), n / 100, relevant=True) for n in range(30)]
    first, second = halves(scores)
    assert {score.query for score in first} & {score.query for score in second} == set()
    assert len({score.query for score in first}) == len({score.query for score in second}) == 5
    again = halves(scores[::-1])
    assert [sorted(half, key=repr) for half in again] == [
        sorted(half, key=repr) for half in (first, second)
    ]


def test_thresholds_are_fitted_to_one_half_and_judged_by_the_other() -> None:
    queries = [str(n) for n in range(40)]
    fitted = {score.query for score in halves(JudgedScore(q, 0, relevant=True) for q in queries)[0]}
    scores = []
    for query in queries:
        scores.append(JudgedScore(query, 0.9 if query in fitted else 0.4, relevant=True))
        scores.append(JudgedScore(query, 0.1 if query in fitted else 0.6, relevant=False))
    report = calibrate(scores, lost=0.05, false=0.05)
    assert report.calibration == Calibration(
        0.5, 0.5, Errors(20, 20, lost=0.0, false=0.0, found=1.0, dropped=1.0)
    )
    assert report.held_out == Errors(20, 20, lost=1.0, false=1.0, found=0.0, dropped=0.0)
    assert sum(one.relevant for one in report.bins) == 40


def test_thresholds_are_written_where_the_composer_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "serve_config.yaml"
    file.write_text(APPLICATION)
    fitted = Calibration(0.6, 0.05, Errors(20, 20, 0.0, 0.0, 1.0, 1.0))
    write_thresholds(file, "docs", fitted)
    (composer,) = yaml.safe_load(file.read_text())["applications"][0]["deployments"]
    assert composer["user_config"] == {
        "corpora": {"docs": {"corrective": {"correct_threshold": 0.6, "incorrect_threshold": 0.05}}}
    }


def test_a_file_that_would_become_wrong_is_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "serve_config.yaml"
    file.write_text(APPLICATION + "  args: {scorer: {thread: 2}}\n")
    before = file.read_text()
    with pytest.raises(ConfigError, match=r"scorer\.thread"):
        write_thresholds(file, "docs", Calibration(0.6, 0.05, Errors(0, 0, None, None, None, None)))
    assert file.read_text() == before
