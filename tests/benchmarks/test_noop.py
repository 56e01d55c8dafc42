"""Ratios are ours divided by the bare handler's."""

from __future__ import annotations

from benchmarks.noop import as_figures, table_of
from benchmarks.turns import Measured, Turn

RESULTS = {
    100: {
        1: {
            "onepass": Measured([Turn(50.0, [0.02, 0.02])]),
            "bare": Measured([Turn(100.0, [0.008, 0.008])]),
            "bare, one hop": Measured([Turn(80.0, [0.012, 0.012])]),
        }
    }
}


def test_the_ratio_is_of_the_median_requests_at_the_same_size_and_number_of_clients() -> None:
    figures = as_figures(RESULTS)
    assert figures["ratios"] == {"onepass/100/1": 2.5}
    assert figures["p50_ms"] == {
        "onepass/100/1": 20.0,
        "bare/100/1": 8.0,
        "bare, one hop/100/1": 12.0,
    }


def test_the_table_holds_every_contender_beside_the_bare_one() -> None:
    table = table_of(RESULTS)
    assert list(table.columns[0].cells) == ["onepass", "bare", "bare, one hop"]
    assert list(table.columns[-1].cells) == ["2.50", "1.00", "1.50"]
