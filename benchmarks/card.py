"""The card under the benchmark: its name, its memory, and the speed that it can reach."""

from __future__ import annotations

import itertools
import resource
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from deployments.inference.backends import CPU

PRODUCTS = 8  # of matrices, one after the other in one graph: what starts them weighs nothing


def memory_used(provider: str) -> int | None:
    """MiB in use on the first card, by whomever; on a CPU the most this process ever had."""
    if provider == CPU:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    used = ask_card("memory.used")
    return int(used) if used.isdecimal() else None


def device_name(provider: str) -> str:
    return "CPU" if provider == CPU else ask_card("name")


def ask_card(field: str) -> str:
    """Ask the driver about the first card; "" where its program is missing or does not know."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def product_speed(provider: str, side: int) -> float:
    """FLOP/s of a chain of fp16 products of square matrices that lie on the device."""
    device = "cpu" if provider == CPU else "cuda"
    runtime = product_chain(provider, side)
    values = (np.random.default_rng(0).normal(size=(side, side)) / side**0.5).astype(np.float16)
    binding = runtime.io_binding()
    for name in ("left", "right"):
        value = onnxruntime.OrtValue.ortvalue_from_numpy(values, device, 0)
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("product", device)

    def run() -> None:
        runtime.run_with_iobinding(binding)
        binding.synchronize_outputs()

    run()
    return float(PRODUCTS * 2 * side**3 / min(timed(run)[1] for _ in range(10)))


def product_chain(provider: str, side: int) -> Any:
    names = ["left", *(f"product{n}" for n in range(1, PRODUCTS)), "product"]
    nodes = [
        helper.make_node("MatMul", [last, "right"], [name])
        for last, name in itertools.pairwise(names)
    ]
    left, right, product = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, [side, side])
        for name in ("left", "right", "product")
    )
    graph = helper.make_graph(nodes, "products", [left, right], [product])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=[provider])


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
