"""Sessions that say which device they run on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from deployments.inference.backends import CPU
from deployments.inference.cpus import usable_cpus
from deployments.inference.errors import ModelError
from deployments.inference.sessions import (
    Device,
    has_driver,
    open_session,
    session_options,
    threads_for,
    warn_of_two_runtimes,
)

IDS = np.array([[2, 5, 3, 6, 3]], np.int64)
FEEDS = {"input_ids": IDS, "attention_mask": np.ones_like(IDS), "token_type_ids": IDS * 0}
without_gpu = pytest.mark.skipif(has_driver(), reason="needs a machine without a GPU")


@without_gpu
def test_asking_for_cuda_where_there_is_none_is_an_error(make_model: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match=r"runs .*model\.onnx on CPUExecutionProvider"):
        open_session(make_model() / "model.onnx", Device("cuda"))


@without_gpu
def test_an_allowed_fallback_says_cpu(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    session = open_session(make_model() / "model.onnx", Device("cuda", allow_cpu_fallback=True))
    assert session.provider == CPU
    assert "model.onnx runs on CPUExecutionProvider" in caplog.text


@without_gpu
def test_auto_is_cpu_where_there_is_no_gpu(make_model: Callable[..., Path]) -> None:
    assert open_session(make_model() / "model.onnx", Device()).provider == CPU


def test_a_device_that_fails_later_is_not_replaced_by_the_cpu_in_silence(
    make_model: Callable[..., Path],
) -> None:
    session = open_session(make_model() / "model.onnx", Device("cpu"))
    session.runtime._sess = LostDevice(session.runtime._sess)
    with pytest.raises(ort_state.EPFail, match="the device is gone"):
        session.run(FEEDS, "logits")


class LostDevice:
    """ONNX Runtime's own session, whose device fails when it is to run."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def run(self, *arguments: object) -> None:
        raise ort_state.EPFail("the device is gone")


def test_only_declared_inputs_are_fed(make_model: Callable[..., Path]) -> None:
    session = open_session(make_model(types=False) / "model.onnx", Device("cpu"))
    assert list(session.inputs) == ["input_ids", "attention_mask"]
    assert session.run(FEEDS, "logits").shape == (1, 1)


def test_the_usual_output_is_picked_if_the_graph_has_it(make_model: Callable[..., Path]) -> None:
    session = open_session(make_model() / "model.onnx", Device("cpu"))
    assert session.pick_output("logits") == "logits"
    assert session.pick_output("scores") == "logits"


def test_eight_threads_share_a_session(make_model: Callable[..., Path]) -> None:
    session = open_session(make_model() / "model.onnx", Device("cpu"))
    expected = session.run(FEEDS, "logits").tolist()
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda _: session.run(FEEDS, "logits").tolist(), range(200)))
    assert results == [expected] * 200


def test_a_device_that_cannot_be_is_refused() -> None:
    with pytest.raises(ModelError, match="one of auto, cuda, cpu, not 'gpu'"):
        Device("gpu")
    with pytest.raises(ModelError, match="threads must be at least 1, not 0"):
        Device(threads=0)


def test_a_file_that_is_no_graph_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelError, match=r"cannot load .*model\.onnx"):
        open_session(tmp_path / "model.onnx", Device("cpu"))
    with pytest.raises(ModelError, match=r"cannot load .*absent\.onnx"):
        open_session(tmp_path / "absent.onnx", Device("cpu"))


def test_a_graph_may_come_as_bytes(make_model: Callable[..., Path]) -> None:
    path = make_model() / "model.onnx"
    expected = open_session(path, Device("cpu")).run(FEEDS, "logits")
    session = open_session(path.read_bytes(), Device("cpu"))
    assert session.run(FEEDS, "logits").tolist() == expected.tolist()
    with pytest.raises(ModelError, match="cannot load tiny: "):
        open_session(b"not a graph", Device("cpu"), "tiny")


def test_threads_are_set_and_do_not_spin() -> None:
    options = session_options(3)
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 1)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_automatic_threads_never_exceed_what_the_process_may_use() -> None:
    assert threads_for("auto", 1000.0) == usable_cpus()
    assert [threads_for("auto", cpus) for cpus in (0.0, 0.1, 1.0)] == [1, 1, 1]
    assert threads_for("auto", 1.5) == min(2, usable_cpus())


def test_threads_that_are_told_are_used_as_told() -> None:
    assert threads_for(12, 0.1) == 12


def test_two_runtimes_in_one_environment_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("onnxruntime", "onnxruntime-gpu"):
        metadata = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        warn_of_two_runtimes()
    assert "onnxruntime and onnxruntime-gpu are both installed" in caplog.text
