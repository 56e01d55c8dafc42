"""A circuit breaker: after a failure calls fail at once, until a probe succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipeline.errors import DeadlineExceeded, OnepassError, Unavailable

logger = logging.getLogger(__name__)

# A call that had less time than this, in seconds, was not given a fair try.
FAIR_S = 1.0


@dataclass
class Breaker:
    """Guards calls to a part that may be down; `probe` is tried every `interval_s` seconds."""

    name: str
    probe: Callable[[], Awaitable[object]]
    interval_s: float = 1.0
    opened: int = 0
    _probing: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_open(self) -> bool:
        return self._probing is not None and not self._probing.done()

    def check(self) -> None:
        """Raise Unavailable while the part is known to be down."""
        if self.is_open:
            raise Unavailable(f"{self.name} is down; the next probe decides")

    @contextmanager
    def guarding(self, budget_s: float, spared: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Guard one call that has `budget_s` seconds: refuse it while the part is down, and trip
        where it fails. What is `spared`, and a deadline that was short, say nothing of its health.
        """
        self.check()
        if budget_s == 0.0:
            raise DeadlineExceeded(f"no time is left for {self.name}")
        try:
            yield
        except spared:
            raise
        except Unavailable:
            self.trip()
            raise
        except DeadlineExceeded:
            if budget_s > FAIR_S:
                self.trip()
            raise

    def trip(self) -> None:
        """Open the circuit and start probing."""
        if not self.is_open:
            self.opened += 1
            logger.warning("%s is down: calls fail at once until a probe succeeds", self.name)
            self._probing = asyncio.get_running_loop().create_task(self._recover())

    async def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    async def _recover(self) -> None:
        while True:
            await asyncio.sleep(self.interval_s)
            try:
                await self.probe()
            except OnepassError:
                continue
            logger.info("%s answers again", self.name)
            return
