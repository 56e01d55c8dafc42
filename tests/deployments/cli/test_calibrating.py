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
from pipeline.errors import InvalidInput, Unavailable
from tests.deployments.cli.server import SmallServer, hit, search_answer

APPLICATION = "applications:\n- import_path: deployments.app:build\n"
FITTED = Calibration(0.6, 0.05, Errors(20, 20, 0.0, 0.0, 1.0, 1.0))


def row(outcome: str, relevance: float | None = 0.5, model: str = "m@1") -> dict[str, Any]:
    return {
        "retrieval_id": f"r-{outcome}",
        "document_id": "d",
        "relevance": relevance,
        "model": model,
        "outcome": outcome,
    }


def searched(
    queries: list[JudgedQuery], *answers: dict[str, Any], model: str | None = "m@1"
) -> list[JudgedScore]:
    """Let a server of `model` give the answers in turn."""
    left = list(answers)

    def answer(method: str, path: str, _: Any) -> tuple[int, Any]:
        return 200, {"model": model} if path == "/v1/status" else left.pop(0)

    with SmallServer(answer) as server, Client(server.url) as client:
        return searched_scores(client, "docs", queries, lambda: None)


def test_a_relevant_document_counts_at_its_best_chunk_and_every_other_chunk_as_irrelevant() -> None:
    hits = [hit("good", 0.2), hit("good", 0.9, 1), hit("bad", 0.3), hit("bad", 0.1, 1), hit("new")]
    query = JudgedQuery("q", "which?", {"good": 2, "bad": 0})
    assert searched([query], search_answer(*hits)) == [
        JudgedScore("q", 0.3, relevant=False),
        JudgedScore("q", 0.1, relevant=False),
        JudgedScore("q", 0.9, relevant=True),
    ]


def test_a_calibrating_search_scores_every_candidate_and_drops_none() -> None:
    queries, done = [JudgedQuery("q", "which?", {})], []
    with SmallServer(lambda *_: (200, search_answer())) as server, Client(server.url) as client:
        assert searched_scores(client, "docs", queries, lambda: done.append(1)) == []
    assert done == [1]
    assert server.requests[1:] == [
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


QUERIES = [JudgedQuery(id, "which?", {"good": 1}) for id in "abc"]


def test_scores_that_a_fallback_gave_are_not_fitted() -> None:
    served = search_answer(hit("good", 0.9))
    fallback = search_answer(hit("good", 0.1), model="spare/x")
    with pytest.raises(Unavailable) as refused:
        searched(QUERIES, served, fallback, fallback)
    assert str(refused.value) == (
        "nothing was fitted: of 3 answers 2 came from another model than the one served"
    )


def test_scores_of_answers_in_which_a_scoring_part_failed_are_not_fitted() -> None:
    served = search_answer(hit("good", 0.9))
    failed = search_answer(hit("good"), degraded=["rerank"], model=None)
    fallback = search_answer(hit("good", 0.1), degraded=["tracking", "correct"], model="spare/x")
    with pytest.raises(Unavailable) as refused:
        searched(QUERIES, failed, served, fallback)
    assert str(refused.value) == (
        "nothing was fitted: of 3 answers 1 came from another model than the one served, "
        "2 lack scores because a part failed"
    )


def test_a_part_that_scores_nothing_may_fail_and_a_query_may_find_nothing() -> None:
    untracked = search_answer(hit("good", 0.9), degraded=["tracking"])
    assert searched(QUERIES[:2], untracked, search_answer(model=None)) == [
        JudgedScore("a", 0.9, relevant=True)
    ]


def test_nothing_is_searched_where_there_is_no_scorer() -> None:
    with pytest.raises(InvalidInput, match="the server has none"):
        searched(QUERIES, model=None)


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
    write_thresholds(file, "docs", FITTED)
    (composer,) = yaml.safe_load(file.read_text())["applications"][0]["deployments"]
    assert composer["user_config"] == {
        "corpora": {"docs": {"corrective": {"correct_threshold": 0.6, "incorrect_threshold": 0.05}}}
    }


@pytest.mark.parametrize("broken", ["5", "text", "[5]", "[[]]", "[null]"])
@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "applications: {}",
        "applications: [{{import_path: {}}}]",
        APPLICATION + "  args: {}",
        APPLICATION + "  deployments: {}",
        APPLICATION + "  deployments: [{{name: Composer, user_config: {}}}]",
        APPLICATION + "  deployments: [{{name: Composer, user_config: {{corpora: {}}}}}]",
        APPLICATION + "  deployments: [{{name: Composer, user_config: {{corpora: {{docs: {}}}}}}}]",
        APPLICATION
        + "  deployments:\n  - name: Composer\n"
        + "    user_config: {{corpora: {{docs: {{corrective: {}}}}}}}",
    ],
)
def test_a_broken_file_is_refused_and_left_as_it_was(
    tmp_path: Path, frame: str, broken: str
) -> None:
    file = tmp_path / "serve_config.yaml"
    file.write_text(frame.format(broken))
    with pytest.raises(ConfigError) as refused:
        write_thresholds(file, "docs", FITTED)
    assert "\n" not in str(refused.value)
    assert file.read_text() == frame.format(broken)


@pytest.mark.parametrize(
    "deployments",
    [
        "null",
        "[]",
        "[{name: null}, {user_config: 5}]",
        "[{name: Composer}]",
        "[{name: Composer, user_config: null}]",
    ],
)
def test_thresholds_find_their_place_where_parts_are_left_empty(
    tmp_path: Path, deployments: str
) -> None:
    file = tmp_path / "serve_config.yaml"
    file.write_text(f"{APPLICATION}  deployments: {deployments}\n")
    write_thresholds(file, "docs", FITTED)
    *_, composer = yaml.safe_load(file.read_text())["applications"][0]["deployments"]
    assert composer == {
        "name": "Composer",
        "user_config": {
            "corpora": {
                "docs": {"corrective": {"correct_threshold": 0.6, "incorrect_threshold": 0.05}}
            }
        },
    }


def test_a_file_that_would_become_wrong_is_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "serve_config.yaml"
    file.write_text(APPLICATION + "  args: {scorer: {thread: 2}}\n")
    before = file.read_text()
    with pytest.raises(ConfigError, match=r"scorer\.thread"):
        write_thresholds(file, "docs", FITTED)
    assert file.read_text() == before
