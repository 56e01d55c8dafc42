"""The GPU script, as far as a machine without a GPU can try it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.encoders import random_weights, save_model
from benchmarks.gpu import count_swaps, known_shape
from deployments.inference.bert_graphs import Shape
from deployments.inference.sessions import has_driver
from tests.deployments.inference.frames import word_piece

TINY = Shape("tiny", 2, 16, 2, 32, vocabulary=100, positions=512)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = word_piece([*LETTERS, *(f"##{c}" for c in LETTERS)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return save_model(tmp_path / "tiny", TINY, random_weights(TINY), tmp_path / "tokenizer.json")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *options],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_ends_with_one_json_object_that_says_the_scores_are_right(folder: Path) -> None:
    done = run("--model", str(folder), "--provider", "cpu", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["right"] is True
    assert report["provider"] == "CPUExecutionProvider"
    assert [run["budget"] for run in report["budgets"]] == [512, 1024]
    assert {"pairs_per_s", "forward_pairs_per_s", "share_of_peak", "tokenising_share"} < set(report)


@pytest.mark.skipif(has_driver(), reason="needs a machine without a GPU")
def test_without_a_gpu_the_script_says_so_in_one_line() -> None:
    done = run()
    assert done.returncode == 2
    assert done.stdout == "nothing to measure: there is no NVIDIA driver on this machine\n"


def test_what_is_no_model_is_named() -> None:
    done = run("--model", "/nowhere", "--provider", "cpu")
    assert done.returncode == 2
    assert done.stdout == "nothing to measure: /nowhere lacks model.onnx and tokenizer.json\n"


def test_swaps_are_counted_where_the_gap_is_more_than_rounding() -> None:
    expected = np.array([3.0, 1.0, 0.999], np.float32)
    assert count_swaps(np.array([3.1, 0.9, 1.0], np.float32), expected, 0.005) == 0
    assert count_swaps(np.array([0.5, 0.9, 1.0], np.float32), expected, 0.005) == 2


def test_the_sizes_of_a_model_are_those_of_its_configuration(folder: Path, tmp_path: Path) -> None:
    assert known_shape(folder) == Shape("tiny", 2, 16, 2, 32)
    assert known_shape(tmp_path) is None
