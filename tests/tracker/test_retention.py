from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from pipeline.errors import Unavailable
from tests.tracker.stores import NOON
from tracker.records import RetentionRun, Scope
from tracker.retention import Policy, run_retention, scope_of

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

    def __init__(
        self,
        failing: tuple[int, ...] = (),
        deaf: tuple[int, ...] = (),
        hanging: tuple[int, ...] = (),
    ) -> None:
        self.failing = failing
        self.deaf = deaf
        self.hanging = hanging
        self.scopes: list[Scope] = []
        self.cutoffs: list[datetime] = []
        self.asked = 0
        self.runs: list[RetentionRun] = []

    async def purge(self, cutoff: datetime, scope: Scope) -> int:
        self.cutoffs.append(cutoff)
        self.scopes.append(scope)
        if len(self.cutoffs) - 1 in self.failing:
            raise Unavailable("the tracker is down")
        if len(self.cutoffs) - 1 in self.hanging:
            await asyncio.Event().wait()
        return 7

    async def report(self, run: RetentionRun) -> None:
        self.asked += 1
        if self.asked - 1 in self.deaf:
            raise ConnectionError("nobody there")
        self.runs.append(run)


async def run(
    owner: Owner,
    clock: Clock,
    now: Callable[[], datetime] | None = None,
    policies: tuple[Policy, ...] = (Policy(90),),
) -> None:
    with pytest.raises(asyncio.CancelledError):
        await run_retention(
            owner.purge,
            owner.report,
            policies=policies,
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
        policies=[Policy(0), Policy(0, "acme")],
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


async def test_a_hanging_purge_is_given_up_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tracker.retention.PURGE_LIMIT_S", 0.01)
    owner, clock = Owner(hanging=(0,)), Clock(sleeps=3)
    await run(owner, clock)
    assert clock.slept == [30.0, 60, 24 * HOUR]
    assert [run.error for run in owner.runs] == ["TimeoutError: no end after 0.01 s", None, None]


async def test_a_hanging_report_does_not_stop_the_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tracker.retention.REPORT_LIMIT_S", 0.01)
    owner, clock = Owner(), Clock(sleeps=3)

    async def report(run: RetentionRun) -> None:
        await asyncio.Event().wait()

    owner.report = report  # type: ignore[method-assign]
    await run(owner, clock)
    assert len(owner.cutoffs) == 3


OF_CORPUS, OF_TENANT = Policy(30, corpus="docs"), Policy(0, tenant="acme")
OF_BOTH, OF_OTHER = Policy(7, "acme", "docs"), Policy(1, "other", "wiki")
POLICIES = (Policy(90), OF_CORPUS, OF_TENANT, OF_BOTH, OF_OTHER)


@pytest.mark.parametrize(
    ("policy", "scope"),
    [
        (
            Policy(90),
            Scope(but=((None, "docs"), ("acme", None), ("acme", "docs"), ("other", "wiki"))),
        ),
        (OF_CORPUS, Scope(corpus="docs", but=(("acme", None), ("acme", "docs")))),
        (OF_TENANT, Scope("acme", but=(("acme", "docs"),))),
        (OF_BOTH, Scope("acme", "docs")),
        (OF_OTHER, Scope("other", "wiki")),
    ],
)
def test_the_most_specific_policy_decides(policy: Policy, scope: Scope) -> None:
    assert scope_of(policy, POLICIES) == scope


async def test_a_round_is_a_purge_for_each_policy_that_does_not_keep_for_ever() -> None:
    owner, clock = Owner(failing=(1,)), Clock(sleeps=2)
    await run(owner, clock, policies=POLICIES)
    start = NOON + timedelta(seconds=30)
    assert clock.slept == [30.0, 60]
    assert owner.cutoffs[:4] == [start - timedelta(days=days) for days in (90, 30, 7, 1)]
    assert owner.scopes[:4] == [
        scope_of(one, POLICIES) for one in (Policy(90), OF_CORPUS, OF_BOTH, OF_OTHER)
    ]
    assert [(run.tenant, run.corpus, run.error) for run in owner.runs[:4]] == [
        (None, None, None),
        (None, "docs", "Unavailable: the tracker is down"),
        ("acme", "docs", None),
        ("other", "wiki", None),
    ]
    assert {run.started_at for run in owner.runs[:4]} == {start}


async def test_a_traceback_from_another_process_is_cut_to_its_last_line() -> None:
    owner, clock = Owner(), Clock(sleeps=1)

    async def purge(cutoff: datetime, scope: Scope) -> int:
        raise RuntimeError("ray::purge()\n  File ...\n\nOSError: " + "x" * 1000 + "\n")

    owner.purge = purge  # type: ignore[method-assign]
    await run(owner, clock)
    assert owner.runs[0].error == ("RuntimeError: OSError: " + "x" * 1000)[:500]


@pytest.mark.parametrize(
    ("days", "hours", "message"),
    [
        (-1, 24, "days must be between 0 and 36500"),
        (float("nan"), 24, "days must be between 0 and 36500"),
        (36_501, 24, "days must be between 0 and 36500"),
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
            policies=[Policy(days)],
            interval_hours=hours,
            jitter=lambda: 0.0,
        )
    assert owner.cutoffs == []


async def test_the_default_clock_and_sleep_work() -> None:
    owner = Owner()
    task = asyncio.create_task(
        run_retention(
            owner.purge,
            owner.report,
            policies=[Policy(90)],
            interval_hours=24,
            jitter=lambda: 0.0,
        )
    )
    while not owner.runs:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert owner.cutoffs[0].utcoffset() == timedelta(0)
