"""The scoring benchmark's result for people, as Markdown that docs/performance.md can hold."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.results import ModelResult, Report

NOTHING = "-"
# Beyond this share of the cores' time, other processes have spoilt the figures.
DISTURBED = 0.05


def show(report: Report, console: Console) -> None:
    console.print("Machine: " + listed(report.machine) + ".")
    console.print("Pairs: " + listed(report.pairs) + ".")
    if report.others_share > DISTURBED:
        console.print(
            f"Disturbed: other processes took {report.others_share:.0%} of the cores' time, "
            "so these figures are worth little."
        )
    for peer, reason in report.absent.items():
        console.print(f"Absent: {peer} ({reason}).")
    for result in report.results:
        console.print(f"\n### {result.model}", markup=False)
        console.print(table_of(result))
        console.print(
            f"Ours: {result.gflops:.0f} of {result.peak_gflops:.0f} GFLOP/s "
            f"({result.share_of_peak:.0%} of the peak; {result.run_gflops:.0f} really run), "
            f"padding {result.padding_share:.1%}, "
            f"tokenising {result.tokenising_share:.1%} of a request "
            f"({result.first_tokenising_share:.1%} where no word was seen before), "
            f"last layer {'cut' if result.cut else 'whole'}. "
            f"Medians of {result.rounds} rounds."
        )


def listed(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def table_of(result: ModelResult) -> Table:
    table = Table(box=box.MARKDOWN)
    table.add_column("scorer", no_wrap=True)
    for column in (
        "best batch",
        "pairs/s",
        "ours ÷ it",
        "pairs/s at default",
        "ours ÷ it",
        "max logit difference",
        "Kendall",
    ):
        table.add_column(column, justify="right")
    for one in result.standings:
        table.add_row(
            one.contender,
            str(one.batch or NOTHING),
            *(cell for speed in (one.best, one.default) for cell in speed_cells(result, speed)),
            f"{one.agreement.max_logit_difference:.0e}",
            f"{one.agreement.kendall:.4f}",
        )
    return table


def speed_cells(result: ModelResult, speed: float | None) -> tuple[str, str]:
    if speed is None:
        return NOTHING, NOTHING
    return f"{speed:.1f}", f"{result.pairs_per_s / speed:.2f}"
