from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.errors import InvalidInput
from tests.records import comparison_of
from tests.tracker.stores import ALL, OpenStore, make_record
from tracker.store import TrackerStore

R1 = make_record("r1")


def test_a_value_that_cannot_be_stored_is_refused_and_nothing_else_is_lost(
    store: TrackerStore,
) -> None:
    store.record([R1])
    with pytest.raises(InvalidInput) as refused:
        store.record_comparisons([replace(comparison_of(R1), error="secret \ud800")])
    assert "secret" not in refused.value.message
    assert store.record_comparisons([comparison_of(R1)]) == []


def test_comparisons_outlive_their_process(open_store: OpenStore) -> None:
    store = open_store()
    store.record([R1])
    store.record_comparisons([comparison_of(R1)])
    store.close()
    assert open_store().find_comparisons(ALL) == [comparison_of(R1)]
