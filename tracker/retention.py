"""The retention's schedule: when to purge, and what to do when a purge fails."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone

from tracker.records import RetentionRun

RETRY_DELAYS_S = (60.0, 300.0, 900.0, 1800.0)  # then the last one again and again
UNREPORTED_RUNS = 100  # two days of half-hourly failures
ERROR_LENGTH = 500
LONGEST_RETENTION_DAYS = 36_500  # a hundred years: any cutoff is still a date
SCHEDULE = "schedule"

logger = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


async def run_retention(
    purge: Callable[[datetime], Awaitable[int]],
    report: Callable[[RetentionRun], Awaitable[None]],
    *,
    retention_days: float,
    interval_hours: float,
    jitter: Callable[[], float],
    now: Callable[[], datetime] = utc_now,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Purge what is older than `retention_days` at start, after `jitter()` seconds, and then
    every `interval_hours`, until cancelled; 0 days keeps all and returns at once.

    A failed purge is tried again after 1, 5 and 15 minutes, then every 30, until one succeeds;
    no failure ends the schedule. Every run goes to `report`; what that fails to take is kept
    (at most 100 runs, the oldest dropped) and given to it again, in order, with the next run.
    Each cutoff is `now()` less the retention and each wait is relative, so a clock that is set
    back only makes a purge delete less. ValueError for settings that make no schedule.
    """
    if not 0 <= retention_days <= LONGEST_RETENTION_DAYS:
        raise ValueError(f"retention_days must be between 0 and {LONGEST_RETENTION_DAYS}")
    if not interval_hours > 0:
        raise ValueError("interval_hours must be above 0")
    if retention_days == 0:
        return
    unreported: deque[RetentionRun] = deque(maxlen=UNREPORTED_RUNS)
    failures = 0
    await sleep(jitter())
    while True:
        run = await purge_once(purge, timedelta(days=retention_days), now)
        unreported.append(run)
        await deliver(unreported, report)
        if run.error is None:
            failures = 0
            await sleep(interval_hours * 3600.0)
        else:
            failures += 1
            logger.error("retention: purge failed (%d in a row): %s", failures, run.error)
            await sleep(RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S)) - 1])


async def purge_once(
    purge: Callable[[datetime], Awaitable[int]],
    retention: timedelta,
    now: Callable[[], datetime],
) -> RetentionRun:
    started_at = now()
    cutoff = started_at - retention
    deleted, error = 0, None
    try:
        deleted = await purge(cutoff)
    except Exception as raised:  # the schedule outlives whatever the owner of the file raises
        error = describe(raised)
    finished_at = max(started_at, now())  # the clock may have been set back meanwhile
    return RetentionRun(started_at, finished_at, cutoff, deleted, error, SCHEDULE)


async def deliver(
    unreported: deque[RetentionRun], report: Callable[[RetentionRun], Awaitable[None]]
) -> None:
    try:
        while unreported:
            await report(unreported[0])
            unreported.popleft()
    except Exception as raised:  # likewise; the runs that are left go with the next one
        logger.error("retention: %d runs unreported: %s", len(unreported), describe(raised))


def describe(error: Exception) -> str:
    """One line: an error that crossed processes carries a whole traceback as its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1]}"[:ERROR_LENGTH]
