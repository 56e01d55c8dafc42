"""Contenders measured in turn, round after round: all meet the same moods of the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.contenders import Absent, Contender, Run
from benchmarks.machine import measured_peak

BATCHES = (1, 2, 4, 8, 16, 32, 64)
# A turn is one request at least, and so many that it lasts this long.
TURN_S = 2.0
# Threads of the one before spin a little while before they sleep.
PAUSE_S = 0.3

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(slots=True)
class Measured:
    """What one contender's runs at one setting gave: seconds a request, and its last logits."""

    seconds: list[float] = field(default_factory=list)
    logits: Sequence[float] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(slots=True)
class Rounds:
    """By contender, then batch size (None: its default). `peaks` are GFLOP/s, one a round.

    `failures` says why a contender ended on the way; nothing is kept of it.
    """

    measured: dict[str, dict[int | None, Measured]] = field(default_factory=dict)
    peaks: list[Mapping[str, float]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, turns: Mapping[int | None, Run]) -> None:
        measured = self.measured.setdefault(name, {size: Measured() for size in turns})
        for size, run in turns.items():
            measured[size].seconds.append(run.seconds)
            measured[size].logits = run.logits

    @property
    def peak(self) -> float:
        """The median of what the better library reached in each round."""
        return statistics.median(max(peak.values()) for peak in self.peaks)


def take_turn(contender: Contender, batch: int | None) -> Run:
    """Return the median request of a turn."""
    time.sleep(PAUSE_S)
    runs: list[Run] = []
    while sum(run.seconds for run in runs) < TURN_S:
        runs.append(contender.run(batch))
    return Run(statistics.median(run.seconds for run in runs), runs[-1].logits)


def find_best_batch(contender: Contender, say: Say) -> int | None:
    """Return the batch size with the fastest turn; None where there is none to choose."""
    if not contender.entry.batched:
        return None
    contender.run(None)
    seconds = {batch: take_turn(contender, batch).seconds for batch in BATCHES}
    say(f"{contender.entry.name}: " + ", ".join(f"{b}: {s:.2f} s" for b, s in seconds.items()))
    return min(seconds, key=seconds.__getitem__)


def rotated(entries: Sequence[T], places: int) -> list[T]:
    """Return the entries from another one on, so that nobody always follows the same one."""
    start = places % len(entries) if entries else 0
    return [*entries[start:], *entries[:start]]


def run_rounds(
    settings: Mapping[Contender, Sequence[int | None]], rounds: int, budget_s: float, say: Say
) -> Rounds:
    """Measure each contender at each of its batch sizes once a round, after one run to warm up.

    One that ends on the way is left out. No round is begun after `budget_s`, but for the first.
    """
    result = Rounds()
    end = time.monotonic() + budget_s
    alive = dict(settings)
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() > end:
            say(f"no time is left for round {number}")
            break
        say(f"round {number} of {rounds}" if number else "warming up")
        for contender, sizes in rotated(list(alive.items()), number):
            try:
                turns = {size: take_turn(contender, size) for size in sizes}
            except Absent as reason:
                result.failures[contender.entry.name] = str(reason)
                result.measured.pop(contender.entry.name, None)
                del alive[contender]
                continue
            if number:
                result.add(contender.entry.name, turns)
        if number:
            result.peaks.append(measured_peak())
    return result
