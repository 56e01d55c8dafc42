from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import cast

import pytest

from pipeline.errors import InvalidInput
from tests.records import comparison_of, record
from tracker.records import (
    ComparisonRecord,
    Feedback,
    Outcome,
    PurgeCounts,
    RetentionRun,
    Window,
)

NAIVE = datetime(2026, 3, 1, 12)
AWARE = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def compared_at(at: datetime) -> ComparisonRecord:
    return replace(comparison_of(record("guide", at=AWARE)), retrieved_at=at)


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Feedback("r1", "guide", "relevant", NAIVE), "given_at"),
        (lambda: compared_at(NAIVE), "retrieved_at"),
        (lambda: Window("acme", since=NAIVE), "since"),
        (lambda: Window("acme", until=NAIVE), "until"),
        (lambda: RetentionRun(NAIVE, AWARE, AWARE, 0, None, "schedule"), "started_at"),
        (lambda: RetentionRun(AWARE, NAIVE, AWARE, 0, None, "schedule"), "finished_at"),
        (lambda: RetentionRun(AWARE, AWARE, NAIVE, 0, None, "schedule"), "cutoff"),
    ],
)
def test_a_naive_time_is_refused_by_field(build: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        build()
    assert refused.value.param == field


def test_a_retrieval_at_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        record("guide", at=NAIVE)
    assert refused.value.param == "retrieved_at"


def test_any_time_zone_will_do() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    assert Window("acme", since=datetime(2026, 3, 1, 17, 30, tzinfo=kolkata)).since == AWARE


def test_an_unknown_outcome_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        Feedback("r1", "guide", cast("Outcome", "excellent"), AWARE)
    assert refused.value.param == "outcome"
    assert "excellent" not in refused.value.message


def test_purge_counts_add_up() -> None:
    assert PurgeCounts(1, 2, 3, 4) + PurgeCounts(10, 20, 30, 40) == PurgeCounts(11, 22, 33, 44)
