"""Pairs a second, from text to score, beside other rerankers on the same cores.

    python -m benchmarks.scoring [--quick] [--json] [--models NAME…] [--rounds N] [--corpus FILE]

Ours and every peer of scripts/peers load the same weights and score the same pairs, each in a
process of its own, in turn. A peer that is not installed or cannot run is reported and left out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run as a file

from benchmarks.agreement import compare
from benchmarks.contenders import ENTRIES, OURS, Absent, Contender
from benchmarks.flops import absorbed_flops, total_flops
from benchmarks.machine import OVERRIDES, describe_machine, others_seconds
from benchmarks.models import SHAPES, Model, make_model
from benchmarks.ours import measure_figures
from benchmarks.pairs import Pairs, load_tokenizer, make_pairs
from benchmarks.results import ModelResult, Report, Standing, as_figures
from benchmarks.rounds import Measured, Rounds, find_best_batch, run_rounds
from benchmarks.tables import show
from deployments.inference.cpus import usable_cpus

QUICK_MODEL = "MiniLM-L6"
# What the search over all batch sizes found there, so that a quick run need not search.
QUICK_BATCHES = {
    "sentence-transformers-torch": 4,
    "sentence-transformers-onnx": 2,
    "fastembed": 1,
    "ctranslate2": 4,
    "naive": 1,
}

# For the rounds, so that all of it ends within five minutes also on a busy machine.
QUICK_BUDGET_S = 180.0

console = Console(stderr=True)


def main() -> None:
    options = parse_options()
    for name in OVERRIDES:
        os.environ.pop(name, None)
    report = measure(options)
    show(report, Console(width=140, highlight=False))
    if options.json:
        print(json.dumps(as_figures(report) | {"quick": options.quick}))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MODEL}, best settings only")
    parser.add_argument("--json", action="store_true", help="figures as the last line")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--corpus", type=Path, help="JSON lines with `text`, to cut texts from")
    options = parser.parse_args()
    if options.quick:
        options.models = [QUICK_MODEL]
    return options


def measure(options: argparse.Namespace) -> Report:
    machine, results = describe_machine(), []
    budget_s = QUICK_BUDGET_S if options.quick else math.inf
    start, others = time.monotonic(), others_seconds()
    versions: dict[str, Mapping[str, str]] = {}
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.models:
            model = make_model(name, Path(scratch))
            pairs = make_pairs(load_tokenizer(model.folder), corpus=options.corpus)
            with contextlib.ExitStack() as stack:
                contenders = start_contenders(model, pairs, stack, absent)
                versions |= {one.entry.name: one.versions for one in contenders if one.versions}
                settings = choose_settings(contenders, options.quick, absent)
                rounds = run_rounds(settings, options.rounds, budget_s, say)
            absent |= rounds.failures
            results.append(result_of(model, pairs, rounds))
    capacity = (time.monotonic() - start) * usable_cpus()
    share = (others_seconds() - others) / capacity
    return Report(machine, describe_pairs(pairs), versions, results, absent, share)


def start_contenders(
    model: Model, pairs: Pairs, stack: contextlib.ExitStack, absent: dict[str, str]
) -> list[Contender]:
    """Start all that can run, and note the others in `absent`."""
    contenders = []
    path = pairs.save(model.folder / "pairs.json")
    for entry in ENTRIES:
        say(f"{model.name}: starting {entry.name}")
        try:
            contenders.append(stack.enter_context(Contender(entry, model.folder, path)))
        except Absent as reason:
            if entry.name == OURS:
                raise
            absent[entry.name] = str(reason)
    return contenders


def choose_settings(
    contenders: Sequence[Contender], quick: bool, absent: dict[str, str]
) -> dict[Contender, list[int | None]]:
    """Choose each contender's batch sizes; note those that end on the way in `absent`."""
    settings = {}
    for contender in contenders:
        try:
            settings[contender] = choose_batches(contender, quick)
        except Absent as reason:
            absent[contender.entry.name] = str(reason)
    return settings


def choose_batches(contender: Contender, quick: bool) -> list[int | None]:
    """The best known batch size; in a full run the one that a search finds, and the default."""
    if quick:
        return [QUICK_BATCHES.get(contender.entry.name)]
    return list(dict.fromkeys([None, find_best_batch(contender, say)]))


def result_of(model: Model, pairs: Pairs, rounds: Rounds) -> ModelResult:
    ours = rounds.measured[OURS][None]
    figures = asyncio.run(measure_figures(model.folder, pairs))
    return ModelResult(
        model=model.name,
        standings=[
            standing_of(entry.name, len(pairs.texts), rounds.measured[entry.name], ours)
            for entry in ENTRIES
            if entry.name in rounds.measured
        ],
        gflops=total_flops(model.shape, pairs.lengths) / ours.median / 1e9,
        run_gflops=sum(absorbed_flops(model.shape, one) for one in pairs.lengths)
        / ours.median
        / 1e9,
        peak_gflops=rounds.peak,
        padding_share=figures.padding_share,
        tokenising_share=figures.tokenising_share,
        first_tokenising_share=figures.first_tokenising_share,
        cut=figures.cut,
        rounds=len(rounds.peaks),
    )


def standing_of(
    name: str, count: int, measured: Mapping[int | None, Measured], ours: Measured
) -> Standing:
    best = min(measured, key=lambda size: measured[size].median)
    return Standing(
        contender=name,
        batch=best,
        best=count / measured[best].median,
        default=count / measured[None].median if None in measured else None,
        agreement=compare(ours.logits, measured[best].logits),
    )


def describe_pairs(pairs: Pairs) -> dict[str, object]:
    return {
        "texts": len(pairs.texts),
        "shortest": min(pairs.lengths),
        "mean": round(statistics.mean(pairs.lengths), 1),
        "longest": max(pairs.lengths),
    }


def say(line: str) -> None:
    console.print(line, style="dim", highlight=False)


if __name__ == "__main__":
    main()
