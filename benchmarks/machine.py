"""The machine under the benchmark: its description, and the speed that its cores can reach.

Run as a module, it prints the peak in GFLOP/s as JSON.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from deployments.inference.cpus import usable_cpus

ROOT = Path(__file__).parents[1]
SIDE = 2048
MEASURED_S = 0.3
# Both choose kernels for another processor than the one at hand.
OVERRIDES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
PACKAGES = ("numpy", "onnxruntime-gpu", "onnxruntime", "tokenizers")


def clean_environment() -> dict[str, str]:
    """The environment for whatever is measured: no overrides of kernels, no hub."""
    kept = {name: value for name, value in os.environ.items() if name not in OVERRIDES}
    return kept | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def describe_machine() -> dict[str, object]:
    return {
        "cpu": cpu_model(),
        "cores": usable_cpus(),
        "niceness": os.nice(0),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: installed for name in PACKAGES if (installed := version_of(name))},
    }


def others_seconds() -> float:
    """CPU seconds since boot that were not ours, nor those of our processes that have ended.

    Taken before and after, it says how disturbed a measurement was. 0 where it cannot be known.
    """
    try:
        fields = Path("/proc/stat").read_text(encoding="utf-8").split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _waiting, *interrupts_and_steal = map(int, fields)
    busy = sum((user, nice, system, *interrupts_and_steal)) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {name.strip(): value.strip() for name, value in facts.items()}
    family = f"family {named.get('cpu family', '?')} model {named.get('model', '?')}"
    return f"{named.get('model name', platform.processor())}, {family}"


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except ModuleNotFoundError:
        return None


def measured_peak() -> dict[str, float]:
    """Ask a process of its own for GFLOP/s of a large fp32 product, by library."""
    command = [sys.executable, "-m", "benchmarks.machine"]
    answer = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), check=True, capture_output=True, text=True
    )
    peak: dict[str, float] = json.loads(answer.stdout)
    return peak


def measure_peak() -> dict[str, float]:
    left, right = np.random.default_rng(0).normal(size=(2, SIDE, SIDE)).astype(np.float32)
    runtime = product_session()
    feeds = {"left": left, "right": right}
    return {
        "numpy": speed(lambda: np.matmul(left, right)),
        "onnxruntime": speed(lambda: runtime.run(None, feeds)),
    }


def product_session() -> onnxruntime.InferenceSession:
    """A graph of nothing but one product, which ONNX Runtime runs on every core."""
    inputs, output = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIDE, SIDE]) for name in names]
        for names in (("left", "right"), ("product",))
    )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["left", "right"], ["product"])], "product", inputs, output
    )
    opset = helper.make_opsetid("", 14)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = usable_cpus()
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )


def speed(multiply: Callable[[], object]) -> float:
    """GFLOP/s of the fastest product."""
    multiply()
    best, end = float("inf"), time.perf_counter() + MEASURED_S
    while time.perf_counter() < end:
        start = time.perf_counter()
        multiply()
        best = min(best, time.perf_counter() - start)
    return 2 * SIDE**3 / best / 1e9


if __name__ == "__main__":
    print(json.dumps(measure_peak()))
