"""The retention's schedule: whose records go when, and what to do when a purge fails."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from tracker.clock import SteadyClock
from tracker.records import RetentionRun, Scope

RETRY_DELAYS_S = (60.0, 300.0, 900.0, 1800.0)  # then the last one again and again
UNREPORTED_ROUNDS = 100  # two days of half-hourly failures
PURGE_LIMIT_S = 3600.0
REPORT_LIMIT_S = 60.0
ERROR_LENGTH = 500
LONGEST_RETENTION_DAYS = 36_500  # a hundred years: any cutoff is still a date
SCHEDULE = "schedule"

T = TypeVar("T")

# Deletes a scope's records from before a moment, and returns how many retrievals those were.
Purge = Callable[[datetime, Scope], Awaitable[int]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """How many days the records of a tenant and a corpus are kept; None means any, 0 days for
    ever."""

    days: float
    tenant: str | None = None
    corpus: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.days <= LONGEST_RETENTION_DAYS:
            raise ValueError(f"days must be between 0 and {LONGEST_RETENTION_DAYS}")

    @property
    def rank(self) -> tuple[bool, bool]:
        """What is more specific is greater; a tenant says more than a corpus."""
        return self.tenant is not None, self.corpus is not None

    def meets(self, other: Policy) -> bool:
        """Whether there may be records that both name."""
        tenants, corpora = {self.tenant, other.tenant}, {self.corpus, other.corpus}
        return all(len(names - {None}) < 2 for names in (tenants, corpora))


def scope_of(policy: Policy, policies: Sequence[Policy]) -> Scope:
    """Return whose records a policy decides on: those it names, less those for which a more
    specific one does."""
    spared = [other for other in policies if other.rank > policy.rank and other.meets(policy)]
    pairs = tuple((other.tenant, other.corpus) for other in spared)
    return Scope(policy.tenant, policy.corpus, pairs)


async def run_retention(
    purge: Purge,
    report: Callable[[RetentionRun], Awaitable[None]],
    *,
    policies: Sequence[Policy],
    interval_hours: float,
    jitter: Callable[[], float],
    now: Callable[[], datetime] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Purge what the policies do not keep at start, after `jitter()` seconds, and then every
    `interval_hours`, until cancelled; if all keep for ever it returns at once.

    A round is a purge for each policy; one that fails, or takes an hour, stops no other. A round
    with a failure is done again after 1, 5 and 15 minutes, then every 30, until one has none; no
    failure ends the schedule. Every run goes to `report`; what that fails to take is kept (of at
    most 100 rounds, the oldest dropped) and given to it again, in order, with the next round.
    Waits are relative, and each cutoff is `now()` less the policy's days; by default a clock
    that is set ahead is not believed at once, and one set back only makes a purge delete less.
    ValueError for an interval that makes no schedule.
    """
    if not interval_hours > 0:
        raise ValueError("interval_hours must be above 0")
    limited = [policy for policy in policies if policy.days > 0]
    if not limited:
        return
    clock = now or SteadyClock().now
    unreported: deque[RetentionRun] = deque(maxlen=UNREPORTED_ROUNDS * len(limited))
    failures = 0
    await sleep(jitter())
    while True:
        started_at = clock()
        runs = [
            await purge_once(purge, policy, scope_of(policy, policies), started_at, clock)
            for policy in limited
        ]
        unreported.extend(runs)
        await deliver(unreported, report)
        errors = [run.error for run in runs if run.error is not None]
        if not errors:
            failures = 0
            await sleep(interval_hours * 3600.0)
        else:
            failures += 1
            logger.error("retention: purge failed (%d in a row): %s", failures, errors[0])
            await sleep(RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S)) - 1])


async def purge_once(
    purge: Purge, policy: Policy, scope: Scope, started_at: datetime, now: Callable[[], datetime]
) -> RetentionRun:
    cutoff = started_at - timedelta(days=policy.days)
    deleted, error = 0, None
    try:
        deleted = await within(PURGE_LIMIT_S, purge(cutoff, scope))
    except Exception as raised:  # the schedule outlives whatever the owner of the file raises
        error = describe(raised)
    return RetentionRun(
        started_at=started_at,
        finished_at=max(started_at, now()),  # the clock may have been set back meanwhile
        cutoff=cutoff,
        deleted=deleted,
        error=error,
        trigger=SCHEDULE,
        tenant=policy.tenant,
        corpus=policy.corpus,
    )


async def deliver(
    unreported: deque[RetentionRun], report: Callable[[RetentionRun], Awaitable[None]]
) -> None:
    try:
        while unreported:
            await within(REPORT_LIMIT_S, report(unreported[0]))
            unreported.popleft()
    except Exception as raised:  # likewise; the runs that are left go with the next round
        logger.error("retention: %d runs unreported: %s", len(unreported), describe(raised))


async def within(seconds: float, work: Awaitable[T]) -> T:
    """Wait for work, which is cancelled when the time is up, and TimeoutError raised.

    asyncio's own wait_for may swallow the cancelling of its caller, before Python 3.12.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not done:
        raise TimeoutError(f"no end after {seconds:g} s")
    return task.result()


def describe(error: Exception) -> str:
    """One line: an error that crossed processes carries a whole traceback as its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1]}"[:ERROR_LENGTH]
