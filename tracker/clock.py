"""The time of day, for what must not be undone by a clock that is set wrong."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

logger = logging.getLogger(__name__)

# What clocks differ by of themselves, and how long one that was set ahead must stay so.
TOLERANCE = timedelta(minutes=1)
BELIEVED_AFTER_S = 86_400.0


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def elapsed_s() -> float:
    """Seconds that have really passed since some moment, time asleep included where the system
    counts it."""
    boot_time: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class SteadyClock:
    """The time of day, but one that was set ahead is believed only after a day.

    Till then it goes on from what it showed before: a purge by a clock that is a year ahead for
    an hour would delete a year. One that is set back is believed at once.
    """

    def __init__(
        self,
        wall: Callable[[], datetime] = utc_now,
        elapsed: Callable[[], float] = elapsed_s,
    ) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._ahead_since: float | None = None
        self._then, self._at = wall(), elapsed()

    def now(self) -> datetime:
        wall, elapsed = self._wall(), self._elapsed()
        steady = self._then + timedelta(seconds=elapsed - self._at)
        if wall > steady + TOLERANCE and not self._has_stayed_ahead(elapsed):
            return steady
        self._ahead_since = None
        self._then, self._at = wall, elapsed
        return wall

    def _has_stayed_ahead(self, elapsed: float) -> bool:
        if self._ahead_since is None:
            logger.warning("the clock was set ahead; it is not believed yet")
            self._ahead_since = elapsed
        return elapsed - self._ahead_since >= BELIEVED_AFTER_S
