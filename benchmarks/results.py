"""What the scoring benchmark found, and the same as one object of figures by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.agreement import Agreement
from benchmarks.contenders import OURS


@dataclass(frozen=True, slots=True)
class Standing:
    """One contender on one model: pairs/s at its best setting and, where measured, its default.

    `batch` is the best setting: None where that is the default, or there is nothing to set.
    """

    contender: str
    batch: int | None
    best: float
    default: float | None
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class ModelResult:
    """All on one model; one of the standings is ours.

    `gflops` is ours, counted as the arithmetic of the cut graph, which gives the same scores;
    `run_gflops` counts what is really run, the last layer's keys and values being absorbed.
    `peak_gflops` is the cores'.
    """

    model: str
    standings: Sequence[Standing]
    gflops: float
    run_gflops: float
    peak_gflops: float
    padding_share: float
    tokenising_share: float
    first_tokenising_share: float
    cut: bool
    rounds: int

    @property
    def share_of_peak(self) -> float:
        return self.gflops / self.peak_gflops

    @property
    def pairs_per_s(self) -> float:
        """Ours."""
        return next(one.best for one in self.standings if one.contender == OURS)


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: `pairs` describes the request, `absent` says why a peer did not run.

    `others_share` is how much of the cores' time went to processes that are not part of it.
    """

    machine: Mapping[str, object]
    pairs: Mapping[str, object]
    versions: Mapping[str, Mapping[str, str]]
    results: Sequence[ModelResult]
    absent: Mapping[str, str]
    others_share: float


def as_figures(report: Report) -> dict[str, Any]:
    """One JSON object: figures keyed "contender/model" or by model; ratios are ours ÷ theirs."""
    cells = [(result, one) for result in report.results for one in result.standings]
    peers = [(result, one) for result, one in cells if one.contender != OURS]
    return {
        "benchmark": "scoring",
        "machine": report.machine,
        "pairs": report.pairs,
        "others_share": report.others_share,
        "versions": report.versions,
        "ratios": {
            key(result, one): round(result.pairs_per_s / one.best, 3) for result, one in peers
        },
        "ratios_default": {
            key(result, one): round(result.pairs_per_s / one.default, 3)
            for result, one in peers
            if one.default
        },
        "pairs_per_s": {key(result, one): one.best for result, one in cells},
        "pairs_per_s_default": {
            key(result, one): one.default for result, one in cells if one.default
        },
        "best_batch": {key(result, one): one.batch for result, one in cells},
        "agreement": {key(result, one): dataclasses.asdict(one.agreement) for result, one in peers},
        **{
            name: {result.model: getattr(result, name) for result in report.results}
            for name in BY_MODEL
        },
        "absent": sorted(report.absent),
        "absent_reasons": dict(report.absent),
    }


BY_MODEL = (
    "gflops",
    "run_gflops",
    "peak_gflops",
    "share_of_peak",
    "padding_share",
    "tokenising_share",
    "first_tokenising_share",
    "cut",
    "rounds",
)


def key(result: ModelResult, standing: Standing) -> str:
    return f"{standing.contender}/{result.model}"
