"""How many CPUs this process may really use: rarely those of its host."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
# Where a container sees its own quota: control groups of version 2, then of version 1.
QUOTA_FILES = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


def usable_cpus() -> int:
    """Count the CPUs that this process may use at once: at least 1.

    Affinity does not show a quota (`docker --cpus`): under one, every CPU of the host is there,
    and more threads than the quota only make each other wait.
    """
    quota = read_quota(CGROUPS)
    return pinned_cpus() if quota is None else max(1, min(pinned_cpus(), math.ceil(quota)))


def pinned_cpus() -> int:
    """Count the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_quota(cgroups: Path) -> float | None:
    """Return how many CPUs' time the control group may use, or None where nothing limits it."""
    quotas = (parse_quota(read_all(cgroups, names)) for names in QUOTA_FILES)
    return next((quota for quota in quotas if quota is not None), None)


def read_all(folder: Path, names: Sequence[str]) -> str:
    """Return the texts of files, joined by a space; "" if any cannot be read."""
    try:
        return " ".join((folder / name).read_text(encoding="ascii") for name in names)
    except OSError:
        return ""


def parse_quota(text: str) -> float | None:
    """Return "QUOTA PERIOD" as a number of CPUs; None if it says `max`, -1 or anything else."""
    fields = text.split()
    if len(fields) != 2 or not all(field.isdecimal() for field in fields):
        return None
    quota, period = (int(field) for field in fields)
    return quota / period if quota and period else None
