"""What a rerank request costs on our path where no model works, beside a bare Serve handler.

`python -m benchmarks.serving --noop` runs it. One Serve instance holds all contenders, so that
they share its proxy; one client process asks them in turn, on the same cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from benchmarks.contenders import OURS
from benchmarks.models import PULLED
from benchmarks.pairs import load_tokenizer, make_pairs
from benchmarks.rounds import Say
from benchmarks.servers import BARE, without_model
from benchmarks.turns import Measured, Results, http_contender, run_rounds
from deployments.inference.resolving import resolve_model

SIZES = (100, 1)
CLIENTS = (1, 4)
# Some dozens of requests, and so short that all meet the same neighbours.
TURN_S = 1.0

# By number of documents.
BySize = Mapping[int, Results]


@dataclass(frozen=True, slots=True)
class Row:
    """One contender's figures; `ratio` is its p50 ÷ that of the bare handler."""

    documents: int
    clients: int
    server: str
    measured: Measured
    ratio: float

    @property
    def key(self) -> str:
        return f"{self.server}/{self.documents}/{self.clients}"


def measure(rounds: int, say: Say, *, haproxy: bool) -> BySize:
    """Start the applications and let them take turns, first with many documents, then with one."""
    model = resolve_model(PULLED)
    pairs = make_pairs(load_tokenizer(model), max(SIZES))
    say("starting the applications")
    with (
        tempfile.TemporaryDirectory() as folder,
        without_model(model, Path(folder), haproxy=haproxy) as servers,
    ):
        results = {}
        for size in SIZES:
            say(f"documents: {size}")
            contenders = [
                http_contender(server, pairs.query, pairs.texts[:size]) for server in servers
            ]
            results[size] = run_rounds(contenders, CLIENTS, rounds, TURN_S, say)
        return results


def rows_of(results: BySize) -> Iterator[Row]:
    for size, by_clients in results.items():
        for clients, by_name in by_clients.items():
            bare_ms = by_name[BARE].p50_ms
            for name, one in by_name.items():
                yield Row(size, clients, name, one, one.p50_ms / bare_ms)


def table_of(results: BySize) -> Table:
    table = Table(box=box.MARKDOWN)
    table.add_column("server", no_wrap=True)
    for column in ("documents", "clients", "p50 ms", "p95 ms", "requests/s", "p50 ÷ bare"):
        table.add_column(column, justify="right")
    for row in rows_of(results):
        table.add_row(
            row.server,
            str(row.documents),
            str(row.clients),
            f"{row.measured.p50_ms:.2f}",
            f"{row.measured.p95_ms:.2f}",
            f"{row.measured.requests_per_s:.0f}",
            f"{row.ratio:.2f}",
        )
    return table


def as_figures(results: BySize) -> dict[str, object]:
    """Figures keyed "contender/documents/clients"; `ratios` are p50s, ours ÷ the bare handler's."""
    rows = list(rows_of(results))
    return {
        "p50_ms": {row.key: round(row.measured.p50_ms, 3) for row in rows},
        "p95_ms": {row.key: round(row.measured.p95_ms, 3) for row in rows},
        "requests_per_s": {row.key: round(row.measured.requests_per_s, 1) for row in rows},
        "ratios": {row.key: round(row.ratio, 3) for row in rows if row.server == OURS},
    }
