"""Rerank requests over HTTP: ours beside our own in-process loop and infinity's server.

    python -m benchmarks.serving [--quick] [--json] [--models NAME…] [--rounds N]
    python -m benchmarks.serving --noop [--json] [--rounds N]

Each request has the same 100 documents and a query of its own, so that nothing is answered from
a cache or shared. All servers stay up and take turns, on the same cores as the clients. With
`--noop` the scorer does no work, and what is left is held against a bare Serve handler.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run as a file

from benchmarks import noop
from benchmarks.agreement import compare
from benchmarks.contenders import OURS, Absent
from benchmarks.machine import OVERRIDES, describe_machine
from benchmarks.models import SHAPES, make_model
from benchmarks.ours import running_batcher, score_texts
from benchmarks.pairs import Pairs, load_tokenizer, make_pairs
from benchmarks.servers import infinity, onepass
from benchmarks.turns import Contender, Measured, Results, http_contender, run_rounds

CLIENTS = (1, 4, 16)
QUICK_CLIENTS = (1, 4)
DOCUMENTS = 100
TURN_S = 4.0
IN_PROCESS = "in process"
# The best of its engines and batch sizes that a search found.
INFINITY_ENGINE, INFINITY_BATCH = "torch", 4

console = Console(stderr=True)


def main() -> None:
    options = parse_options()
    for name in OVERRIDES:
        os.environ.pop(name, None)
    figures: dict[str, object] = {"benchmark": "serving", "machine": describe_machine()}
    output = Console(width=140, highlight=False)
    figures |= compare_paths(options, output) if options.noop else compare_servers(options, output)
    figures |= {"proxy": "haproxy" if options.haproxy else "serve"}
    if options.json:
        print(json.dumps(figures))


def compare_paths(options: argparse.Namespace, output: Console) -> dict[str, object]:
    """Measure and show what ours and a bare handler cost where no model works."""
    results = noop.measure(options.rounds, say, haproxy=options.haproxy)
    output.print(noop.table_of(results))
    return noop.as_figures(results)


def compare_servers(options: argparse.Namespace, output: Console) -> dict[str, object]:
    """Measure and show all servers on each model."""
    absent: dict[str, str] = {}
    by_model = {}
    for name in options.models:
        results, kendall = measure(name, options, absent)
        output.print(f"\n### {name}\n", markup=False)
        output.print(table_of(results))
        output.print(f"Kendall's tau to the in-process order: {kendall}")
        by_model[name] = (results, kendall)
    figures = as_figures(by_model) | {"quick": options.quick}
    return figures | {"absent": sorted(absent), "absent_reasons": absent}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="TinyBERT-L2, 1 and 4 clients")
    parser.add_argument("--json", action="store_true", help="figures as the last line")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=["MiniLM-L6", "TinyBERT-L2"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--noop", action="store_true", help="no model work, beside a bare handler")
    parser.add_argument("--haproxy", action="store_true", help="ours behind HAProxy")
    options = parser.parse_args()
    if options.quick:
        options.models = ["TinyBERT-L2"]
    return options


def measure(
    name: str, options: argparse.Namespace, absent: dict[str, str]
) -> tuple[Results, dict[str, float]]:
    """Start all on one model, let them take turns, and see whether they rank alike."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        scratch = Path(folder)
        model = make_model(name, scratch)
        pairs = make_pairs(load_tokenizer(model.folder), DOCUMENTS)
        say(f"{name}: starting the servers")
        alone = stack.enter_context(in_process(model.folder, pairs))
        servers = [stack.enter_context(onepass(model.folder, scratch, haproxy=options.haproxy))]
        try:
            starting = infinity(model.folder, scratch, INFINITY_ENGINE, INFINITY_BATCH)
            servers.append(stack.enter_context(starting))
        except Absent as reason:
            absent["infinity"] = str(reason)
        asked = [http_contender(server, pairs.query, pairs.texts) for server in servers]
        order = asyncio.run(logits_of(model.folder, pairs))
        kendall = {
            server.name: round(compare(order, server.scores(pairs.query, pairs.texts)).kendall, 4)
            for server in servers
        }
        clients = QUICK_CLIENTS if options.quick else CLIENTS
        return run_rounds([alone, *asked], clients, options.rounds, TURN_S, say), kendall


@contextlib.contextmanager
def in_process(model: Path, pairs: Pairs) -> Iterator[Contender]:
    """The batcher on a loop in a thread, as a replica has it, asked by threads."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = running_batcher(model)
    _, batcher = asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()

    def ask(number: int) -> None:
        query = f"{pairs.query} {number}"
        asyncio.run_coroutine_threadsafe(score_texts(batcher, query, pairs.texts), loop).result()

    try:
        yield Contender(IN_PROCESS, lambda: contextlib.nullcontext(ask))
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def logits_of(model: Path, pairs: Pairs) -> list[float]:
    async with running_batcher(model) as (_, batcher):
        return await score_texts(batcher, pairs.query, pairs.texts)


def table_of(results: Results) -> Table:
    table = Table(box=box.MARKDOWN)
    table.add_column("server", no_wrap=True)
    for column in ("clients", "pairs/s", "÷ in process", "p50 ms", "added ms", "ours ÷ it"):
        table.add_column(column, justify="right")
    for clients, by_name in results.items():
        alone, ours = by_name[IN_PROCESS], by_name[OURS]
        for name, one in by_name.items():
            table.add_row(
                name,
                str(clients),
                f"{pairs_per_s(one):.0f}",
                f"{pairs_per_s(one) / pairs_per_s(alone):.3f}",
                f"{one.p50_ms:.1f}",
                f"{one.p50_ms - alone.p50_ms:.1f}",
                f"{pairs_per_s(ours) / pairs_per_s(one):.2f}",
            )
    return table


def as_figures(by_model: Mapping[str, tuple[Results, Mapping[str, float]]]) -> dict[str, object]:
    """Figures keyed "contender/model/clients"; `ratios` are ours ÷ theirs."""
    cells = [
        (f"{name}/{model}/{clients}", name, one, by_name)
        for model, (results, _) in by_model.items()
        for clients, by_name in results.items()
        for name, one in by_name.items()
    ]
    return {
        "pairs_per_s": {key: pairs_per_s(one) for key, _, one, _ in cells},
        "p50_ms": {key: one.p50_ms for key, _, one, _ in cells},
        "ratios": {
            key: round(pairs_per_s(by_name[OURS]) / pairs_per_s(one), 3)
            for key, name, one, by_name in cells
            if name != OURS
        },
        "added_p50_ms": {
            key: round(one.p50_ms - by_name[IN_PROCESS].p50_ms, 2)
            for key, name, one, by_name in cells
            if name == OURS
        },
        "kendall": {model: kendall for model, (_, kendall) in by_model.items()},
    }


def pairs_per_s(one: Measured) -> float:
    return DOCUMENTS * one.requests_per_s


def say(line: str) -> None:
    console.print(line, style="dim", highlight=False)


if __name__ == "__main__":
    main()
