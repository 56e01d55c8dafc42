"""ONNX Runtime's execution providers, and how each is used well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deployments.inference.shapes import Shape, buckets, fit_bucket, fit_exactly, ladder

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"

Feeds = Mapping[str, NDArray[np.integer[Any]]]


@dataclass(frozen=True, slots=True)
class Backend:
    """One execution provider: its options, its way of running, and the shapes it runs in.

    `batch_tokens` are the padded tokens of a batch that suit it.
    `fit(rows, length, max_tokens)` is the padded shape of a batch, and
    `shapes(max_tokens, max_batch_tokens)` are those to run once before anyone waits for them.
    """

    provider: str
    options: Mapping[str, str]
    batch_tokens: int
    run: Callable[[Any, Feeds, str], NDArray[np.float32]]
    fit: Callable[[int, int, int], Shape]
    shapes: Callable[[int, int], list[Shape]]


def run_plainly(runtime: Any, feeds: Feeds, output: str) -> NDArray[np.float32]:
    """Return one output of one pass over arrays that lie where they are used."""
    result: NDArray[np.float32] = runtime.run([output], feeds)[0]
    return result


def run_bound(runtime: Any, feeds: Feeds, output: str) -> NDArray[np.float32]:
    """Return one output of one pass over arrays that are first copied to where they are used.

    Binding puts each input on the device that reads it, once, and brings back this output alone.
    """
    binding = runtime.io_binding()
    for name, values in feeds.items():
        binding.bind_cpu_input(name, values)
    binding.bind_output(output)
    binding.synchronize_inputs()
    runtime.run_with_iobinding(binding)
    result: NDArray[np.float32] = binding.copy_outputs_to_cpu()[0]
    return result


CUDA_OPTIONS = {
    # Doubling would take up to twice the memory of the largest batch.
    "arena_extend_strategy": "kSameAsRequested",
    # What is called fp32 has to be it: TF32 keeps 10 bits of 23.
    "use_tf32": "0",
}

# On a CPU larger batches fall out of its caches: 2,048 tokens take 1.2 to 1.6 times as long each.
# A GPU needs many to have work for all of its parts; benchmarks/gpu.py finds a card's best.
BACKENDS: Mapping[str, Backend] = {
    CPU: Backend(CPU, {}, 512, run_plainly, fit_exactly, ladder),
    CUDA: Backend(CUDA, CUDA_OPTIONS, 16_384, run_bound, fit_bucket, buckets),
}
