"""CPUs that a process may use: quotas of containers among them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployments.inference.cpus import parse_quota, pinned_cpus, read_quota, usable_cpus


def test_a_quota_is_so_many_cpus() -> None:
    assert parse_quota("150000 100000\n") == 1.5
    assert parse_quota("50000\n 100000\n") == 0.5


def test_no_quota_is_no_number() -> None:
    assert parse_quota("max 100000\n") is None
    assert parse_quota("-1\n 100000\n") is None
    assert [parse_quota(text) for text in ("", "100000", "0 100000", "100000 0")] == [None] * 4


def test_the_second_version_of_control_groups_is_read(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert read_quota(tmp_path) == 2.5


def test_the_first_version_of_control_groups_is_read(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("200000\n")
    assert read_quota(tmp_path) is None
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("50000\n")
    assert read_quota(tmp_path) == 4.0


def test_where_there_are_no_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert read_quota(tmp_path) is None


def test_a_process_pinned_to_one_cpu_has_one() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cpus() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_a_quota_rounds_up_and_never_goes_beyond_the_cpus_pinned_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.inference.cpus.CGROUPS", tmp_path)
    assert usable_cpus() == pinned_cpus() == len(os.sched_getaffinity(0))
    for quota, expected in (("1000", 1), ("100001", min(2, pinned_cpus())), ("9" * 9, None)):
        (tmp_path / "cpu.max").write_text(f"{quota} 100000\n")
        assert usable_cpus() == (expected or pinned_cpus())
