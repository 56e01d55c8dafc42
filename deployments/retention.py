"""The Retention actor: one per Recorder deployment; its constructor only starts the schedule."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime

import ray
from ray import serve

from deployments.handles import call
from tracker.records import PurgeCounts, RetentionRun, Scope
from tracker.retention import PURGE_LIMIT_S, REPORT_LIMIT_S, Policy, run_retention


@ray.remote(num_cpus=0)
class Retention:
    """Purges through the Recorder, which alone opens the database."""

    def __init__(
        self, policies: Sequence[Policy], interval_hours: float, start_jitter_s: float
    ) -> None:
        self.app_name = serve.get_deployment_actor_context().app_name
        self.schedule = asyncio.get_event_loop().create_task(
            run_retention(
                self.purge,
                self.report,
                policies=policies,
                interval_hours=interval_hours,
                jitter=lambda: random.uniform(0.0, start_jitter_s),
            )
        )

    async def purge(self, cutoff: datetime, scope: Scope) -> int:
        recorder = serve.get_deployment_handle("Recorder", self.app_name)
        counts: PurgeCounts = await call(
            recorder, "purge", cutoff, False, scope, timeout_s=PURGE_LIMIT_S, retry=True
        )
        return counts.retrievals

    async def report(self, run: RetentionRun) -> None:
        recorder = serve.get_deployment_handle("Recorder", self.app_name)
        await call(recorder, "record_run", run, timeout_s=REPORT_LIMIT_S, retry=True)

    async def ping(self) -> bool:
        return not self.schedule.done()
