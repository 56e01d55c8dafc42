from __future__ import annotations

import time
import uuid
from datetime import datetime, timezone

import pytest

from tracker.ids import created_at, new_retrieval_id


def test_an_id_is_a_canonical_version_7_uuid() -> None:
    retrieval_id = new_retrieval_id()
    parsed = uuid.UUID(retrieval_id)
    assert str(parsed) == retrieval_id
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122


def test_an_id_tells_the_millisecond_it_was_made_in() -> None:
    before = time.time_ns() // 1_000_000
    made = created_at(new_retrieval_id())
    after = time.time_ns() // 1_000_000
    assert made is not None
    assert before <= round(made.timestamp() * 1000) <= after


def test_ids_differ_and_sort_by_creation() -> None:
    ids = []
    for _ in range(100):
        ids.append(new_retrieval_id())
        time.sleep(0.000_01)  # beyond the quarter of a microsecond that an id resolves
    assert ids == sorted(set(ids))


def test_the_example_of_the_standard_reads_as_it_says() -> None:
    made = created_at("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
    assert made == datetime(2022, 2, 22, 19, 22, 22, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "other",
    [
        "",
        "guide",
        "919108f7-52d1-4320-9bac-f847db4148a8",  # version 4
        "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        "017f22e279b07cc398c4dc0c0c07398f",
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
        "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",  # another variant
        "ffffffff-ffff-7cc3-98c4-dc0c0c07398f",  # after the year 9999
    ],
)
def test_anything_else_has_no_time(other: str) -> None:
    assert created_at(other) is None
