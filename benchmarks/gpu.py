"""The scorer on a GPU: its speed beside the card's own, its memory, and that it is right.

    python -m benchmarks.gpu [--model FOLDER] [--quick] [--json]

Runs unattended in under ten minutes, and without CUDA ends with one line and exit code 2.
`--provider cpu --quick` runs the same script on a CPU, to try the script, not the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.card import device_name, memory_used, product_speed, timed
from benchmarks.flops import total_flops
from benchmarks.models import MINILM_L12, PULLED
from benchmarks.pairs import Pairs, load_tokenizer, make_pairs
from deployments.inference.batching import Batcher
from deployments.inference.bert_graphs import Shape
from deployments.inference.bundles import BUNDLES
from deployments.inference.cpus import usable_cpus
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.dense_encoder import split_by_length
from deployments.inference.errors import ModelError
from deployments.inference.pulling import pull_all
from deployments.inference.score_cache import ScoreCache
from deployments.inference.sessions import Device, has_driver
from deployments.inference.tokens import EncodedPair
from pipeline.scoring import Pair

LOGIT_TOLERANCE = 5e-3
DOCUMENTS = 100  # a request
CLIENTS = 4  # so that a device never waits for the next request


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: requests, pairs scored on the CPU too, budgets, matrices' sides."""

    requests: int
    compared: int
    budgets: tuple[int, ...]
    side: int
    rounds: int
    shapes: int


FULL = Size(40, 200, (4096, 8192, 16384, 32768, 65536), 8192, 5, 300)
QUICK = Size(1, 20, (512, 1024), 512, 2, 20)


def main() -> int:
    options = parse_options()
    size = QUICK if options.quick else FULL
    if options.provider == "cuda" and not has_driver():
        print("nothing to measure: there is no NVIDIA driver on this machine")
        return 2
    try:
        folder = find_folder(options.model)
        encoder = CrossEncoder.load(folder, Device(options.provider))
    except ModelError as error:
        print(f"nothing to measure: {error}".replace("\n", " "))
        return 2
    pairs = [make_pairs(load_tokenizer(folder), DOCUMENTS, seed) for seed in range(size.requests)]
    report = measure(encoder, folder, pairs, size, known_shape(folder))
    for name, value in report.items():
        print(f"{name:24} {value}")
    if options.json:
        print(json.dumps(report))
    return 0 if report["right"] else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=PULLED, help="a bundle's name or a model's folder")
    parser.add_argument("--provider", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="a try, not a measurement")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    return parser.parse_args()


def find_folder(model: str) -> Path:
    """Return a model's folder; a bundle is pulled, with half-precision weights."""
    return pull_all([model], fp16=True)[0] if model in BUNDLES else Path(model)


def known_shape(folder: Path) -> Shape | None:
    """Return the model's sizes, from its config.json where it has one."""
    config = folder / "config.json"
    if not config.is_file():
        return MINILM_L12 if folder.name == PULLED else None
    sizes = json.loads(config.read_text(encoding="utf-8"))
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    return Shape(folder.name, *(sizes[name] for name in names))


def measure(
    encoder: CrossEncoder, folder: Path, requests: Sequence[Pairs], size: Size, shape: Shape | None
) -> dict[str, Any]:
    """Return every figure by name. Speeds are medians in pairs/s."""
    peak = product_speed(encoder.provider, size.side)
    encoded, tokenising = timed(lambda: encode_all(encoder, requests))
    runs = [measure_budget(encoder, requests, encoded, budget, size) for budget in size.budgets]
    best = max(runs, key=lambda run: float(run["pairs_per_s"]))
    lengths = [length for request in requests for length in request.lengths]
    flops = total_flops(shape, lengths, encoder.graph.cut) / len(lengths) if shape else 0.0
    return {
        "device": device_name(encoder.provider),
        "provider": encoder.provider,
        "model": encoder.fingerprint,
        "precision": encoder.graph.precision,
        "onnxruntime": onnxruntime.__version__,
        "peak_tflops_fp16": round(peak / 1e12, 2),
        "best_budget": best["budget"],
        "pairs_per_s": best["pairs_per_s"],
        "forward_pairs_per_s": best["forward_pairs_per_s"],
        "share_of_peak": round(flops * float(best["pairs_per_s"]) / peak, 4),
        "forward_share_of_peak": round(flops * float(best["forward_pairs_per_s"]) / peak, 4),
        "tokenising_share": round(tokenising / len(lengths) * float(best["pairs_per_s"]), 4),
        "budgets": runs,
        **measure_memory(encoder, int(best["budget"]), size.shapes),
        **compare(encoder, folder, encoded[: size.compared]),
    }


def encode_all(encoder: CrossEncoder, requests: Sequence[Pairs]) -> list[EncodedPair]:
    return [pair for one in requests for pair in encoder.encode(one.query, one.texts)]


def measure_budget(
    encoder: CrossEncoder,
    requests: Sequence[Pairs],
    encoded: Sequence[EncodedPair],
    budget: int,
    size: Size,
) -> dict[str, Any]:
    """Warm up for batches of so many padded tokens, then time passes alone, and text to scores."""
    _, warming = timed(lambda: encoder.warm_up(budget))
    batches = [
        [encoded[index] for index in group]
        for group in split_by_length([pair.length for pair in encoded], budget)
    ]
    forward = [
        timed(lambda: [encoder.logits(one) for one in batches])[1] for _ in range(size.rounds)
    ]
    whole = [asyncio.run(score_all(encoder, requests, budget)) for _ in range(size.rounds)]
    return {
        "budget": budget,
        "pairs_per_s": round(len(encoded) / float(np.median([one[0] for one in whole])), 1),
        "forward_pairs_per_s": round(len(encoded) / float(np.median(forward)), 1),
        "padding_share": round(whole[-1][1], 4),
        "warm_up_s": round(warming, 2),
    }


async def score_all(
    encoder: CrossEncoder, requests: Sequence[Pairs], budget: int
) -> tuple[float, float]:
    """Return (seconds, padding share) of all requests from text to scores, nothing cached."""
    batcher = Batcher(
        encoder,
        ScoreCache(0),
        tokenizer_threads=usable_cpus(),
        max_batch_tokens=budget,
        max_queued_tokens=10**9,
    )
    batcher.start()
    waiting = iter(list(enumerate(requests)))

    async def run_client() -> None:
        for number, request in waiting:
            texts = [Pair(f"{number}-{i}", text) for i, text in enumerate(request.texts)]
            await batcher.score("", request.query, texts, 600)

    start = time.perf_counter()
    await asyncio.gather(*(run_client() for _ in range(CLIENTS)))
    seconds = time.perf_counter() - start
    totals = batcher.totals
    await batcher.close()
    if totals["pairs_scored"] != sum(len(request.texts) for request in requests):
        raise RuntimeError(f"not every pair was scored: {totals}")
    return seconds, 1 - totals["tokens"] / totals["padded_tokens"]


def measure_memory(encoder: CrossEncoder, budget: int, count: int) -> dict[str, Any]:
    """Run batches of random shapes; return the MiB in use before and after."""
    random = np.random.default_rng(3)
    whole = encoder.encode("a", ["word " * encoder.max_tokens])[0]
    before = memory_used(encoder.provider)
    for length in random.integers(8, whole.length + 1, size=count):
        pair = EncodedPair(whole.ids[:length], whole.type_ids[:length], truncated=True)
        encoder.logits([pair] * int(random.integers(1, max(1, budget // length) + 1)))
    return {"memory_mib_before": before, "memory_mib_after": memory_used(encoder.provider)}


def compare(encoder: CrossEncoder, folder: Path, pairs: Sequence[EncodedPair]) -> dict[str, Any]:
    """Hold the logits against fp32 on the CPU, one pair at a time."""
    reference = CrossEncoder.load(folder, Device("cpu", threads=4), precision="fp32")
    expected = np.concatenate([reference.logits([pair]) for pair in pairs])
    together = np.concatenate([encoder.logits(pairs[i : i + 32]) for i in range(0, len(pairs), 32)])
    alone = np.concatenate([encoder.logits([pair]) for pair in pairs])
    difference = float(max(np.abs(logits - expected).max() for logits in (together, alone)))
    swaps = count_swaps(together, expected, LOGIT_TOLERANCE)
    return {
        "pairs_compared": len(pairs),
        "max_logit_difference": round(difference, 6),
        "max_batch_difference": round(float(np.abs(together - alone).max()), 6),
        "swaps_above_tolerance": swaps,
        "right": difference <= LOGIT_TOLERANCE and swaps == 0,
    }


def count_swaps(
    logits: NDArray[np.float32], expected: NDArray[np.float32], tolerance: float
) -> int:
    """Count the pairs of pairs in another order than expected, where the gap is above tolerance."""
    gaps = expected[:, None] - expected[None, :]
    return int(((gaps > tolerance) & (logits[:, None] <= logits[None, :])).sum())


if __name__ == "__main__":
    sys.exit(main())
