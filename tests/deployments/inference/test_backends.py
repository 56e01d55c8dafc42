"""Ways of running, each on the CPU: what binds for a GPU binds for any device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments.inference.backends import BACKENDS, CPU, CUDA, Backend, Feeds
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.sessions import Device, open_session
from deployments.inference.shapes import fit_bucket

TEXTS = ["berlin", "the new museum", "", "river " * 20, "of old"]


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_every_way_of_running_gives_the_same_output(
    make_model: Callable[..., Path], backend: Backend
) -> None:
    session = open_session(make_model() / "model.onnx", Device("cpu"))
    ids = np.array([[2, 5, 3, 6, 3], [2, 7, 3, 8, 3]], np.int64)
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": ids * 0}
    expected = session.runtime.run(["logits"], feeds)[0]
    output = backend.run(session.runtime, feeds, "logits")
    assert output.dtype == np.float32
    assert output.shape == (2, 1)
    assert output.tolist() == expected.tolist()


def test_bound_runs_of_eight_threads_do_not_mix(make_model: Callable[..., Path]) -> None:
    model = CrossEncoder.load(make_model(settings={}), Device("cpu"))
    bound = on_backend(model, BACKENDS[CUDA])
    batches = [model.encode(f"city {n}", TEXTS[: 1 + n % 5]) for n in range(64)]
    expected = [model.logits(batch).tolist() for batch in batches]
    with ThreadPoolExecutor(8) as threads:
        results = [logits.tolist() for logits in threads.map(bound.logits, batches)]
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, other, atol=1e-5)


def test_what_fills_up_a_bucket_changes_no_score(make_model: Callable[..., Path]) -> None:
    model = CrossEncoder.load(make_model(settings={}), Device("cpu"))
    bucketed = on_backend(model, dataclasses.replace(BACKENDS[CPU], fit=fit_bucket))
    pairs = bucketed.encode("old city", [*TEXTS, *TEXTS[:4]])
    np.testing.assert_allclose(bucketed.logits(pairs), model.logits(pairs), atol=1e-5)


def test_batches_run_in_their_bucket_and_never_beyond_the_window(
    make_model: Callable[..., Path],
) -> None:
    model = CrossEncoder.load(make_model(settings={"max_tokens": 61}), Device("cpu"))
    runs = NotedRuns(model.graph.session.runtime)
    noted = dataclasses.replace(model.graph.session, runtime=runs)
    model = CrossEncoder(dataclasses.replace(model.graph, session=noted))
    bucketed = on_backend(model, dataclasses.replace(BACKENDS[CPU], fit=fit_bucket))
    for batch in (model.encode("old city", TEXTS[:1] * 9), model.encode("city", ["river " * 99])):
        assert len(bucketed.logits(batch)) == len(batch)
    assert runs.shapes == [(10, 8), (1, 61)]


class NotedRuns:
    """An ONNX Runtime session that notes the shapes it is run with."""

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime
        self.shapes: list[tuple[int, ...]] = []

    def run(self, outputs: list[str], feeds: Feeds) -> Any:
        self.shapes.append(feeds["input_ids"].shape)
        return self.runtime.run(outputs, feeds)


def test_a_gpu_keeps_its_memory_and_precision_in_bounds() -> None:
    assert BACKENDS[CUDA].options == {
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": "0",
    }
    assert BACKENDS[CPU].options == {}


def on_backend(model: CrossEncoder, backend: Backend) -> CrossEncoder:
    """The same model, run as that backend runs, on the device it is on."""
    session = dataclasses.replace(model.graph.session, backend=backend)
    return CrossEncoder(dataclasses.replace(model.graph, session=session))
