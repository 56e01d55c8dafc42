"""A circuit breaker: after a failure calls fail at once, until a probe succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pipeline.errors import OnepassError, Unavailable

logger = logging.getLogger(__name__)


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
