from __future__ import annotations

from typing import Any

import pytest

from deployments.config import AppArgs
from deployments.options import ConfigError
from tracker.retention import Policy


def policies(tracker: dict[str, Any]) -> list[Policy]:
    return AppArgs.model_validate({"tracker": tracker}).tracker.policies


def test_without_entries_all_is_kept_for_retention_days() -> None:
    assert policies({}) == [Policy(90.0)]
    assert policies({"retention_days": 0.0}) == [Policy(0.0)]


def test_an_entry_is_a_policy_of_a_tenant_a_corpus_or_both() -> None:
    retention = [
        {"tenant": "acme", "days": 365.0},
        {"corpus": "scratch", "days": 1.0},
        {"tenant": "acme", "corpus": "scratch", "days": 0.0},
    ]
    assert policies({"retention_days": 30.0, "retention": retention}) == [
        Policy(30.0),
        Policy(365.0, "acme"),
        Policy(1.0, None, "scratch"),
        Policy(0.0, "acme", "scratch"),
    ]


@pytest.mark.parametrize(
    ("retention", "message"),
    [
        ([{"days": 1.0}], "retention[0]: name a tenant or a corpus; for all there is retention_"),
        (
            [{"tenant": "a", "days": 1.0}, {"tenant": "a", "days": 2.0}],
            "tracker.retention: two entries are of the same tenant and corpus",
        ),
        ([{"tenant": "a b", "days": 1.0}], "tracker.retention[0].tenant: String should match"),
        ([{"tenant": "a"}], "tracker.retention[0].days: Field required"),
        ([{"tenant": "a", "days": -1.0}], "retention[0].days: Input should be greater than or"),
        ([{"tenant": "a", "day": 1.0, "days": 1.0}], "tracker.retention[0].day: Extra inputs are"),
    ],
)
def test_an_entry_that_means_nothing_is_refused(
    retention: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        policies({"retention": retention})
    assert message in str(refused.value)
