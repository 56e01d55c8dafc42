"""Stage times of one search."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Milliseconds by stage, in the order in which stages began; stages may overlap."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; one that is entered again goes on where it stood."""
        before = self.stages.setdefault(name, 0.0)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = round(before + ms_since(started), 3)

    def total(self) -> dict[str, float]:
        return {**self.stages, "total": round(ms_since(self.started), 3)}


def ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3
