"""What the retrieval benchmark asks, and what its parts tell each other in files.

Only the standard library and numpy are used here, because peers run in environments of their own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.synthetic import Passage, Source, Vectors

QUERIES = 60
# So many of them are asked once before, untimed.
WARM_UP = 5
# As an application's default: `search.top_k`.
K = 50
# The depth that recall is judged at, beside K.
FIRST = 10


@dataclass(frozen=True, slots=True)
class Case:
    """A filter, as a request has it and as SQL, and which chunks pass it."""

    name: str
    filter: Mapping[str, Any] | None
    expression: str
    passes: Callable[[Passage], bool]


CASES = (
    Case("no filter", None, "", lambda passage: True),
    Case("1 in 20", {"field": "year", "eq": 2003}, "year == 2003", lambda one: one.year == 2003),
    Case("1 in 2", {"field": "year", "gte": 2010}, "year >= 2010", lambda one: one.year >= 2010),
    Case("1 in 1,000", {"field": "shard", "eq": 7}, "shard == 7", lambda one: one.shard == 7),
)


@dataclass(slots=True)
class Exact:
    """The true nearest of each query among the chunks seen so far, by case."""

    queries: Vectors
    numbers: dict[str, NDArray[np.int64]]
    cosines: dict[str, Vectors]

    @classmethod
    def of(cls, source: Source) -> Exact:
        queries = np.array([vector for _, vector in source.queries(QUERIES)])
        nothing = np.empty((QUERIES, 0))
        return cls(
            queries,
            {case.name: nothing.astype(np.int64) for case in CASES},
            {case.name: nothing.astype(np.float32) for case in CASES},
        )

    def see(self, passages: Sequence[Passage]) -> None:
        cosines = self.queries @ np.array([passage.vector for passage in passages]).T
        for case in CASES:
            passing = np.array([case.passes(passage) for passage in passages])
            numbers = np.array([passage.number for passage in passages])[passing]
            rows = np.broadcast_to(numbers, (QUERIES, len(numbers)))
            all_numbers = np.concatenate([self.numbers[case.name], rows], axis=1)
            all_cosines = np.concatenate([self.cosines[case.name], cosines[:, passing]], axis=1)
            best = np.argsort(-all_cosines, axis=1)[:, :K]
            self.numbers[case.name] = np.take_along_axis(all_numbers, best, axis=1)
            self.cosines[case.name] = np.take_along_axis(all_cosines, best, axis=1)

    def write(self, path: Path) -> None:
        nearest = {name: numbers.tolist() for name, numbers in self.numbers.items()}
        path.write_text(json.dumps(nearest), encoding="utf-8")


def recall(found: Sequence[Sequence[int]], nearest: Sequence[Sequence[int]], depth: int) -> float:
    """Return the share of the true nearest at this depth that was found within it."""
    shares = [
        len(set(one[:depth]).intersection(true[:depth])) / len(true[:depth])
        for one, true in zip(found, nearest, strict=True)
    ]
    return float(np.mean(shares))


def timed(seconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.percentile(seconds, [50, 95]) * 1e3
    return {"p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}


def resident_mb() -> int:
    """This process's memory, at its highest so far."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0


def disk_mb(folder: Path) -> float:
    return round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6, 1)


class Stopwatch:
    """Adds up the time within its `with` blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start


def say(what: object) -> None:
    """Give the result as the last line of standard output."""
    print(json.dumps(what), file=sys.stdout, flush=True)
