from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from pipeline.errors import Unavailable
from tests.tracker.stores import NOON
from tracker.records import RetentionRun
from tracker.retention import run_retention

HOUR = 3600.0


class Clock:
    """Time passes only by sleeping; the sleep after the last allowed one is cancelled."""

    def __init__(self, sleeps: int) -> None:
        self.time = NOON
        self.slept: list[float] = []
        self.sleeps = sleeps

    def now(self) -> datetime:
        return self.time

    async def sleep(self, seconds: float) -> None:
        if len(self.slept) == self.sleeps:
            raise asyncio.CancelledError
        self.slept.append(seconds)
        self.time += timedelta(seconds=seconds)


class Owner:
    """Takes purges and reports; fails those whose number, counted from 0, it is told to."""

    def __init__(self, failing: tuple[int, ...] = (), deaf: tuple[int, ...] = ()) -> None:
        self.failing = failing
        self.deaf = deaf
        self.cutoffs: list[datetime] = []
        self.asked = 0
        self.runs: list[RetentionRun] = []

    async def purge(self, cutoff: datetime) -> int:
        self.cutoffs.append(cutoff)
        if len(self.cutoffs) - 1 in self.failing:
            raise Unavailable("the tracker is down")
        return 7

    async def report(self, run: RetentionRun) -> None:
        self.asked += 1
        if self.asked - 1 in self.deaf:
            raise ConnectionError("nobody there")
        self.runs.append(run)


async def run(owner: Owner, clock: Clock, now: Callable[[], datetime] | None = None) -> None:
    with pytest.raises(asyncio.CancelledError):
        await run_retention(
            owner.purge,
            owner.report,
            retention_days=90,
            interval_hours=24,
            now=now or clock.now,
            sleep=clock.sleep,
            jitter=lambda: 30.0,
        )


async def test_it_purges_at_start_and_then_every_interval() -> None:
    owner, clock = Owner(), Clock(sleeps=3)
    await run(owner, clock)
    assert clock.slept == [30.0, 24 * HOUR, 24 * HOUR]
    first = NOON + timedelta(seconds=30) - timedelta(days=90)
    assert owner.cutoffs == [first, first + timedelta(days=1), first + timedelta(days=2)]


async def test_every_run_is_reported() -> None:
    owner, clock = Owner(failing=(1,)), Clock(sleeps=2)
    await run(owner, clock)
    start = NOON + timedelta(seconds=30)
    again = start + timedelta(hours=24)
    ninety = timedelta(days=90)
    assert owner.runs == [
        RetentionRun(start, start, start - ninety, 7, None, "schedule"),
        RetentionRun(
            again, again, again - ninety, 0, "Unavailable: the tracker is down", "schedule"
        ),
    ]


async def test_a_failed_purge_is_retried_until_one_succeeds() -> None:
    owner, clock = Owner(failing=(0, 1, 2, 3, 4)), Clock(sleeps=7)
    await run(owner, clock)
    assert clock.slept == [30.0, 60, 300, 900, 1800, 1800, 24 * HOUR]
    assert [run.error is None for run in owner.runs] == [False] * 5 + [True, True]


async def test_retries_begin_anew_after_a_success() -> None:
    owner, clock = Owner(failing=(0, 1, 3)), Clock(sleeps=6)
    await run(owner, clock)
    assert clock.slept == [30.0, 60, 300, 24 * HOUR, 60, 24 * HOUR]


async def test_a_run_that_was_not_taken_is_reported_with_the_next() -> None:
    owner, clock = Owner(deaf=(0, 1)), Clock(sleeps=3)
    await run(owner, clock)
    assert clock.slept == [30.0, 24 * HOUR, 24 * HOUR]
    assert [run.cutoff for run in owner.runs] == owner.cutoffs


async def test_no_more_than_a_hundred_runs_wait_for_a_report() -> None:
    owner, clock = Owner(deaf=tuple(range(119))), Clock(sleeps=120)
    await run(owner, clock)
    assert [run.cutoff for run in owner.runs] == owner.cutoffs[20:]


async def test_zero_days_keep_all() -> None:
    owner, clock = Owner(), Clock(sleeps=0)
    await run_retention(
        owner.purge,
        owner.report,
        retention_days=0,
        interval_hours=24,
        jitter=lambda: 30.0,
        sleep=clock.sleep,
    )
    assert owner.cutoffs == []
    assert owner.runs == []


async def test_a_clock_that_is_set_back_purges_less_and_keeps_the_schedule() -> None:
    owner, clock = Owner(), Clock(sleeps=2)
    times = iter([NOON, NOON - timedelta(hours=1), NOON - timedelta(days=2), NOON])
    await run(owner, clock, now=lambda: next(times))
    assert clock.slept == [30.0, 24 * HOUR]
    assert owner.cutoffs == [NOON - timedelta(days=90), NOON - timedelta(days=92)]
    assert owner.runs[0].finished_at == NOON


async def test_a_traceback_from_another_process_is_cut_to_its_last_line() -> None:
    owner, clock = Owner(), Clock(sleeps=1)

    async def purge(cutoff: datetime) -> int:
        raise RuntimeError("ray::purge()\n  File ...\n\nOSError: " + "x" * 1000 + "\n")

    owner.purge = purge  # type: ignore[method-assign]
    await run(owner, clock)
    assert owner.runs[0].error == ("RuntimeError: OSError: " + "x" * 1000)[:500]


@pytest.mark.parametrize(
    ("days", "hours", "message"),
    [
        (-1, 24, "retention_days must be between 0 and 36500"),
        (float("nan"), 24, "retention_days must be between 0 and 36500"),
        (36_501, 24, "retention_days must be between 0 and 36500"),
        (90, 0, "interval_hours must be above 0"),
        (90, float("nan"), "interval_hours must be above 0"),
    ],
)
async def test_settings_that_make_no_schedule_are_refused(
    days: float, hours: float, message: str
) -> None:
    owner = Owner()
    with pytest.raises(ValueError, match=message):
        await run_retention(
            owner.purge,
            owner.report,
            retention_days=days,
            interval_hours=hours,
            jitter=lambda: 0.0,
        )
    assert owner.cutoffs == []


async def test_the_default_clock_and_sleep_work() -> None:
    owner = Owner()
    task = asyncio.create_task(
        run_retention(
            owner.purge, owner.report, retention_days=90, interval_hours=24, jitter=lambda: 0.0
        )
    )
    while not owner.runs:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert owner.cutoffs[0].utcoffset() == timedelta(0)
