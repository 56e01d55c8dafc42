"""How fast, how complete and how large the index is, beside the bare engine and a peer.

    python -m benchmarks.retrieval [--large] [--chunks N …] [--data FOLDER …] [--json FILE]

Made-up chunks (`benchmarks/synthetic.py`): 10,000 and 100,000, with --large 1,000,000 as well.
Each part runs in a process of its own, so that its memory is its own. The peer is Milvus Lite,
which `scripts/peers milvus-lite` installs. --data measures nDCG of the legs and of both on
collections with human judgements, as BEIR has them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run as a file

from benchmarks.contenders import ENVIRONMENTS
from benchmarks.machine import ROOT, clean_environment, describe_machine
from benchmarks.quality import STAGES, Memory, StageFigures, make_collection, run_stage
from benchmarks.quality import table_of as table_of_quality
from deployments.cli.judgements import read_judged
from pipeline.scoring import Pair, ScoreAnswer

SIZES = (10_000, 100_000)
LARGE = 1_000_000
# The peer takes seconds a query beyond it.
PEER_CHUNKS = 100_000
PEER = "milvus-lite"
LEGS = [stage for stage in STAGES if stage.correction is None and stage.rerank is None]
console = Console(stderr=True)


def main() -> None:
    options = parse_options()
    out = Console(width=110, highlight=False)
    sizes = [*SIZES, *([LARGE] if options.large else [])]
    if options.chunks is not None:
        sizes = options.chunks
    results = []
    for size in sizes:
        results.append(measure(size))
        out.print(f"\n### {size:,} chunks\n", table_of_searches(results[-1]))
    if results:
        out.print("\n### By size\n", table_of_sizes(results))
    quality = {}
    for folder in options.data:
        quality[folder.name] = asyncio.run(measure_quality(folder))
        out.print(f"\n### {folder.name}\n", table_of_quality(quality[folder.name]))
    if options.json:
        figures = {
            "benchmark": "retrieval",
            "machine": describe_machine(),
            "sizes": results,
            "quality": {name: [asdict(one) for one in some] for name, some in quality.items()},
        }
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--large", action="store_true", help="1,000,000 chunks as well")
    parser.add_argument(
        "--chunks",
        type=int,
        nargs="*",
        help="these sizes in place of the others; none for no speed at all",
    )
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="judged collections")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def measure(size: int) -> dict[str, Any]:
    """Write and search one corpus, ours and the peer's."""
    peer = ENVIRONMENTS / PEER / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        ingest = run(Path(sys.executable), "benchmarks.retrieval_ingest", size, folder)
        search = run(Path(sys.executable), "benchmarks.retrieval_search", size, folder)
        other = None
        if peer.exists() and size <= PEER_CHUNKS:
            other = run(peer, "benchmarks.peers.milvus_lite", size, folder)
    return {"chunks": size, "ingest": ingest, "search": search, PEER: other}


def run(python: Path, module: str, size: int, folder: str) -> dict[str, Any]:
    console.print(f"{module}: {size:,} chunks …")
    answer = subprocess.run(
        [python, "-m", module, str(size), folder],
        cwd=ROOT,
        env=clean_environment() | {"LANCE_LOG": "error"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    figures: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return figures


def table_of_searches(result: Mapping[str, Any]) -> Table:
    table = Table(box=box.MARKDOWN)
    table.add_column("p50 / p95 ms", no_wrap=True)
    cases: Mapping[str, Any] = result["search"]["cases"]
    for name in cases:
        table.add_column(name, justify="right", no_wrap=True)
    for way in ("dense", "bm25", "hybrid", "bare dense", "bare bm25", "bare both"):
        table.add_row(way, *(cell(case[way]) for case in cases.values()))
    for name in ("hybrid ÷ bare", "recall@10", "recall@50"):
        table.add_row(name, *(f"{case[name]:.3f}" for case in cases.values()))
    if result[PEER]:
        theirs: Mapping[str, Any] = result[PEER]["cases"]
        for way in ("dense", "bm25", "hybrid"):
            table.add_row(f"{PEER} {way}", *(cell(theirs[name][way]) for name in cases))
        table.add_row(
            f"{PEER} hybrid ÷ ours",
            *(f"{p50(theirs[name]['hybrid']) / p50(cases[name]['hybrid']):.1f}" for name in cases),
        )
        table.add_row(f"{PEER} recall@10", *(f"{theirs[name]['recall@10']:.3f}" for name in cases))
    return table


def cell(times: Mapping[str, float]) -> str:
    return f"{times['p50_ms']:.1f} / {times['p95_ms']:.1f}"


def p50(times: Mapping[str, float]) -> float:
    return times["p50_ms"]


def table_of_sizes(results: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.MARKDOWN)
    table.add_column("", no_wrap=True)
    for result in results:
        table.add_column(f"{result['chunks']:,} chunks", justify="right")
    ingests = [result["ingest"] for result in results]
    peers = [result[PEER] or {} for result in results]
    rows = {
        "chunks/s written, in commits of 256": [one["chunks_per_s"] for one in ingests],
        "s until all is indexed and merged": [one["settle_s"] for one in ingests],
        "s for the vector index alone": [one["vector_index_s"] for one in ingests],
        "MB on disk": [one["disk_mb"] for one in ingests],
        "MB on disk with versions of 10 minutes": [
            one["disk_with_old_versions_mb"] for one in ingests
        ],
        "bytes on disk a chunk": [round(one["disk_mb"] * 1e6 / one["chunks"]) for one in ingests],
        "MB of memory, writer": [one["memory_mb"] for one in ingests],
        "MB of memory, reader": [result["search"]["memory_mb"] for result in results],
        f"{PEER}: chunks/s written": [one.get("chunks_per_s", "-") for one in peers],
        f"{PEER}: MB of memory": [one.get("memory_mb", "-") for one in peers],
    }
    for name, figures in rows.items():
        table.add_row(name, *map(str, figures))
    return table


async def measure_quality(data: Path) -> list[StageFigures]:
    """Judge each leg and both together."""
    queries = read_judged(data / "queries.jsonl", data / "qrels.tsv", None)
    with tempfile.TemporaryDirectory() as folder:
        collection, _ = await make_collection(data, queries, folder)
        return [(await run_stage(one, collection, queries, Memory(unused)))[0] for one in LEGS]


async def unused(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
    raise NotImplementedError("no stage of these scores")


if __name__ == "__main__":
    main()
