"""Ratios are ours divided by theirs."""

from __future__ import annotations

from benchmarks.agreement import Agreement, compare
from benchmarks.results import ModelResult, Report, Standing, as_figures


def standing(name: str, best: float, default: float | None) -> Standing:
    return Standing(name, 4, best, default, Agreement(0.0, 1.0))


def test_ratios_are_ours_over_theirs_whatever_their_order() -> None:
    standings = [standing("naive", 20.0, 10.0), standing("onepass", 50.0, 50.0)]
    result = ModelResult("M", standings, 300.0, 290.0, 400.0, 0.02, 0.01, 0.02, True, 5)
    figures = as_figures(Report({}, {}, {}, [result], {"flashrank": "not installed"}, 0.0))
    assert figures["ratios"] == {"naive/M": 2.5}
    assert figures["ratios_default"] == {"naive/M": 5.0}
    assert figures["share_of_peak"] == {"M": 0.75}
    assert figures["absent"] == ["flashrank"]


def test_agreement_is_the_largest_difference_and_the_share_of_pairs_in_order() -> None:
    assert compare([1.0, 2.0, 3.0], [1.0, 2.5, 3.0]) == Agreement(0.5, 1.0)
    assert compare([1.0, 2.0], [2.0, 1.0]) == Agreement(1.0, -1.0)
