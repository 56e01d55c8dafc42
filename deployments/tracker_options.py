"""The options of the tracker: its file, and how long what stands in it is kept."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator, model_validator

from deployments.options import CORPUS, Options, option
from tracker.retention import Policy


class RetentionArgs(Options):
    """How long the records of a tenant, of a corpus, or of a tenant's corpus are kept."""

    tenant: str | None = option(None, "whose records; null = every tenant's", pattern=CORPUS)
    corpus: str | None = option(None, "of which corpus; null = of every one", pattern=CORPUS)
    days: float = option(..., "older records are purged; 0 = keep all", ge=0, le=36_500)

    @model_validator(mode="after")
    def _of_some(self) -> RetentionArgs:
        if self.tenant is None and self.corpus is None:
            raise ValueError("name a tenant or a corpus; for all there is retention_days")
        return self


class TrackerArgs(Options):
    path: str | None = option(None, "DuckDB file; null = tracker.duckdb in the data folder")
    durability: Literal["async", "commit"] = option(
        "async", "tracking never delays a search; commit waits for the disk"
    )
    memory_limit: str = option("512MB", "DuckDB's own default is 80 % of the machine")
    threads: int = option(1, "one writer; more threads would take the scorer's cores", ge=1, le=64)
    outbox_rows: int = option(
        200_000, "records and hits a Composer replica holds for the tracker: about 90 MB", ge=1
    )
    retention_days: float = option(90.0, "older records are purged; 0 = keep all", ge=0, le=36_500)
    retention: list[RetentionArgs] = option(
        [],
        "other times for some: a tenant's corpus counts before a tenant, a tenant before a corpus",
        max_length=1000,
    )
    interval_hours: float = option(24.0, "how often retention runs", gt=0, le=8_760)
    start_jitter_s: float = option(
        60.0, "the first purge waits up to this long, so that starts do not pile up", ge=0, le=3600
    )

    @field_validator("retention")
    @classmethod
    def _distinct(cls, retention: list[RetentionArgs]) -> list[RetentionArgs]:
        if len({(one.tenant, one.corpus) for one in retention}) < len(retention):
            raise ValueError("two entries are of the same tenant and corpus")
        return retention

    @property
    def policies(self) -> list[Policy]:
        """How long everything is kept, the general rule first."""
        of_some = [Policy(one.days, one.tenant, one.corpus) for one in self.retention]
        return [Policy(self.retention_days), *of_some]
