"""ONNX Runtime sessions that say which device they really run on."""

from __future__ import annotations

import ctypes
import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from deployments.inference.backends import BACKENDS, CPU, CUDA, Backend
from deployments.inference.cpus import usable_cpus
from deployments.inference.errors import ModelError

logger = logging.getLogger(__name__)

PROVIDERS = ("auto", "cuda", "cpu")

INPUT_TYPES: Mapping[str, type[np.integer[Any]]] = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}

OPEN_ERRORS = (
    ort_state.Fail,
    ort_state.InvalidArgument,
    ort_state.InvalidGraph,
    ort_state.InvalidProtobuf,
    ort_state.NoSuchFile,
    ort_state.NotImplemented,
    ort_state.RuntimeException,
)


@dataclass(frozen=True, slots=True)
class Device:
    """Where a graph is to run: on `cuda`, `cpu`, or whichever of them works (`auto`).

    `threads` are those of one pass on the CPU. Where `cuda` was asked for and does not work, the
    CPU is an error unless `allow_cpu_fallback`. ModelError if a value is unusable.
    """

    provider: str = "auto"
    threads: int = 1
    allow_cpu_fallback: bool = False

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            known = ", ".join(PROVIDERS)
            raise ModelError(f"provider must be one of {known}, not {self.provider!r}")
        if self.threads < 1:  # ONNX Runtime takes 0 for every core of the host
            raise ModelError(f"threads must be at least 1, not {self.threads}")


@dataclass(frozen=True, slots=True)
class Session:
    """A loaded graph on the backend that ONNX Runtime really uses, whatever was asked for.

    `inputs` are the declared names with their types, `outputs` the declared names.
    Any number of threads may call `run` at once.
    """

    backend: Backend
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    runtime: Any

    @property
    def provider(self) -> str:
        return self.backend.provider

    def run(self, feeds: Mapping[str, NDArray[np.int64]], output: str) -> NDArray[np.float32]:
        """Return one output of one forward pass, fed with the declared inputs and no others."""
        declared = {
            name: feeds[name].astype(INPUT_TYPES[kind], copy=False)
            for name, kind in self.inputs.items()
        }
        return self.backend.run(self.runtime, declared, output)

    def pick_output(self, preferred: str) -> str:
        """Return the preferred output if the graph has it, else its first."""
        return preferred if preferred in self.outputs else self.outputs[0]


def open_session(graph: Path | bytes, device: Device, name: str = "") -> Session:
    """Load a graph, a file or its bytes, on a device. Messages call it `name`, else by its path.

    ModelError if it cannot be loaded, or if `cuda` was asked for and is not what ONNX Runtime
    then uses, unless `allow_cpu_fallback`: left to itself it would fall back silently.
    """
    warn_of_two_runtimes()
    wanted = wanted_providers(device)
    name = name or (str(graph) if isinstance(graph, Path) else "the graph")
    runtime = load_graph(graph, name, wanted, device.threads)
    used = runtime.get_providers()[0]
    if CUDA in wanted and used != CUDA:
        report_fallback(name, used, allowed=device.allow_cpu_fallback or device.provider == "auto")
    runtime.disable_fallback()  # in the middle of work it would go over to the CPU, and not tell
    runtime._model_bytes = None  # kept for that fallback alone, and as large as the model
    return Session(
        backend=BACKENDS[used],
        inputs={entry.name: entry.type for entry in runtime.get_inputs()},
        outputs=tuple(entry.name for entry in runtime.get_outputs()),
        runtime=runtime,
    )


def threads_for(threads: int | Literal["auto"], num_cpus: float) -> int:
    """Return how many threads a replica uses: those it is told to, or as many as suit it.

    `auto` is the smaller of `num_cpus`, what the replica was given, and the CPUs that its process
    may use: never the host's cores.
    """
    if threads != "auto":
        return threads
    return max(1, min(usable_cpus(), math.ceil(num_cpus)))


def wanted_providers(device: Device) -> list[str]:
    """Return the providers to try, best first; `auto` tries CUDA only where a driver is."""
    if device.provider == "cuda" or (device.provider == "auto" and has_driver()):
        return [CUDA, CPU]
    return [CPU]


def load_graph(graph: Path | bytes, name: str, wanted: Sequence[str], threads: int) -> Any:
    available = set(onnxruntime.get_available_providers())
    backends = [BACKENDS[provider] for provider in wanted if provider in available]
    if BACKENDS[CUDA] in backends and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # finds CUDA libraries that came as Python packages
    source = str(graph) if isinstance(graph, Path) else graph
    providers = [(backend.provider, dict(backend.options)) for backend in backends]
    try:
        return onnxruntime.InferenceSession(source, session_options(threads), providers)
    except OPEN_ERRORS as error:
        raise ModelError(f"cannot load {name}: {error}") from error


def session_options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads  # the default is every core of the host
    options.inter_op_num_threads = 1
    # Spinning threads burn the cores that other replicas were promised.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Patterns are kept for every input shape ever seen, and shapes vary without end here.
    options.enable_mem_pattern = False
    # Without the arena every tensor goes through malloc, whose own arenas, one a thread, then
    # come to hold twice the memory.
    options.enable_cpu_mem_arena = True
    return options


def report_fallback(name: str, used: str, *, allowed: bool) -> None:
    """Say loudly what nobody notices otherwise: a GPU was expected, and the CPU does the work."""
    if not allowed:
        raise ModelError(
            f"provider cuda was asked for, but ONNX Runtime runs {name} on {used}: install "
            "onnxruntime-gpu with CUDA and cuDNN, set provider: auto or cpu, "
            "or allow_cpu_fallback: true"
        )
    logger.warning("CUDA does not work here: %s runs on %s", name, used)


def has_driver() -> bool:
    """Whether an NVIDIA driver is there, so that `auto` is quiet on machines without a GPU."""
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


def warn_of_two_runtimes() -> None:
    """Both wheels own the same folder: whichever was installed last decides about CUDA."""
    if is_installed("onnxruntime") and is_installed("onnxruntime-gpu"):
        logger.warning(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: "
            "uninstall both, then install the one you want"
        )


def is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
