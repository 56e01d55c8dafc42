from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from deployments.cli.main import app
from tests.deployments.cli.server import SmallServer, hit, search_answer

ROOT = Path(__file__).parents[3]


@pytest.fixture
def judged(tmp_path: Path) -> list[str]:
    """Options naming 40 queries, for each of which document a is relevant."""
    queries, qrels = tmp_path / "queries.jsonl", tmp_path / "qrels.tsv"
    queries.write_text("".join(f'{{"_id": "{n}", "text": "q{n}"}}\n' for n in range(40)))
    qrels.write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{n}\ta\t1\n" for n in range(40)))
    return ["--queries", str(queries), "--qrels", str(qrels)]


def run(*arguments: str, status: int = 0) -> str:
    def answer(method: str, path: str, request: Any) -> tuple[int, Any]:
        if path == "/v1/status":
            return 200, {"model": "m@1"}
        return 200, search_answer(hit("b", 0.1), hit("a", 0.9), forward_passes=2)

    with SmallServer(answer) as server:
        result = CliRunner().invoke(app, [*arguments, "--url", server.url])
    assert result.exit_code == status, result.output
    return result.stdout


def test_evaluate_prints_one_row_a_stage(judged: list[str]) -> None:
    lines = run("evaluate", "--k", "5", "--limit", "2", *judged).splitlines()
    assert lines[0].split() == [
        *("stage", "nDCG@5", "MRR@5", "recall@5", "passes", "cached", "ms", "p50", "degraded")
    ]
    assert lines[1].split() == ["bm25", "0.631", "0.500", "1.000", "2.0", "0.0", "10", "0"]
    assert lines[7].startswith("means over 2 queries; 0 without a relevant document")


def test_evaluate_gives_the_same_as_one_object(judged: list[str]) -> None:
    answer = json.loads(run("evaluate", "--corpus", "docs", "--json", *judged))
    assert answer["corpus"] == "docs"
    assert [stage["quality"]["recall"] for stage in answer["stages"]] == [1.0] * 6


def test_calibrate_shows_thresholds_and_their_errors(judged: list[str]) -> None:
    shown = run("calibrate", *judged)
    assert "correct_threshold 0.5, incorrect_threshold 0.5" in shown
    assert "nobody has judged counts as irrelevant" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["0.9", "to", "1.0", "40", "█" * 20, "0"] in lines
    assert ["held", "out", "20", "0.0%", "100.0%", "20", "100.0%", "0.0%"] in lines


def test_calibrate_writes_thresholds_and_says_how_they_take_effect(
    judged: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "serve_config.yaml"
    file.write_text((ROOT / "serve_config.yaml").read_text())
    shown = run("calibrate", "--corpus", "docs", "--write", str(file), *judged)
    assert f"serve deploy {file}" in shown.replace("\n", "")
    deployments = yaml.safe_load(file.read_text())["applications"][0]["deployments"]
    (config,) = [one["user_config"] for one in deployments if one["name"] == "Composer"]
    assert config["corpora"]["docs"]["corrective"]["correct_threshold"] == 0.5


def test_too_few_judgements_are_one_line_and_no_thresholds(judged: list[str]) -> None:
    assert run("calibrate", "--limit", "10", *judged, status=1) == ""


def test_calibrate_needs_to_be_told_who_judged(judged: list[str]) -> None:
    run("calibrate", status=2)
    run("calibrate", "--from-feedback", *judged, status=2)


def test_compact_says_what_the_file_gave_back() -> None:
    sizes = {"bytes_before": 258_000_000, "bytes_after": 37_000_000}
    with SmallServer(lambda method, path, body: (200, sizes)) as server:
        result = CliRunner().invoke(app, ["compact", "--url", server.url])
        assert server.requests == [("POST", "/v1/admin/compact", {})]
    assert result.stdout == "compacted: 246 MiB before, 35 MiB after\n"
