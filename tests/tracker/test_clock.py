from __future__ import annotations

from datetime import datetime, timedelta

from tests.tracker.stores import NOON
from tracker.clock import SteadyClock

DAY = 86_400.0


class Time:
    """What the wall shows, and what has really passed."""

    def __init__(self) -> None:
        self.wall, self.elapsed = NOON, 1000.0

    def pass_(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.elapsed += seconds

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.elapsed)


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_it_shows_the_time_of_day() -> None:
    time = Time()
    clock = time.clock()
    for _ in range(3):
        time.pass_(DAY)
        assert clock.now() == time.wall


def test_small_steps_are_followed() -> None:
    time = Time()
    clock = time.clock()
    for _ in range(100):
        time.pass_(DAY)
        time.wall += timedelta(seconds=50)
        assert clock.now() == time.wall


def test_a_clock_that_is_set_ahead_for_a_while_is_not_believed() -> None:
    time = Time()
    clock = time.clock()
    time.wall += timedelta(days=365)
    assert clock.now() == NOON
    time.pass_(DAY - 1)
    assert clock.now() == later(DAY - 1)
    time.wall -= timedelta(days=365)
    assert clock.now() == later(DAY - 1)
    time.pass_(DAY)
    time.wall += timedelta(days=365)
    assert clock.now() == later(2 * DAY - 1)


def test_a_clock_that_stays_ahead_for_a_day_was_right() -> None:
    time = Time()
    clock = time.clock()
    time.wall += timedelta(days=365)
    assert clock.now() == NOON
    time.pass_(DAY)
    assert clock.now() == time.wall == later(366 * DAY)
    time.pass_(DAY)
    assert clock.now() == time.wall


def test_a_clock_that_is_set_back_is_believed_at_once() -> None:
    time = Time()
    clock = time.clock()
    time.wall -= timedelta(days=365)
    assert clock.now() == later(-365 * DAY)


def test_the_real_clock_goes() -> None:
    clock = SteadyClock()
    assert clock.now() <= clock.now()
