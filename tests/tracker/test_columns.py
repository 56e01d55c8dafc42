from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tracker.columns import (
    COMPARISON_COLUMNS,
    FEEDBACK_COLUMNS,
    HIT_COLUMNS,
    KINDS,
    PARENT_COLUMNS,
    RETRIEVAL_COLUMNS,
    RUN_COLUMNS,
)
from tracker.store import TrackerStore


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("retrievals", {*RETRIEVAL_COLUMNS}),
        ("retrieved_hits", {*PARENT_COLUMNS, *HIT_COLUMNS, "model", "position"}),
        ("feedback", {*PARENT_COLUMNS, *FEEDBACK_COLUMNS}),
        ("comparisons", {*COMPARISON_COLUMNS}),
        ("retention_runs", {*RUN_COLUMNS}),
    ],
)
def test_a_table_has_the_columns_of_its_record(
    store: TrackerStore, path: Path, table: str, names: set[str]
) -> None:
    store.close()
    with duckdb.connect(str(path)) as connection:
        rows = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')").fetchall()
    # DuckDB answers with a longer name of the same type.
    kinds = {name: KINDS[name].replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE") for name in names}
    assert dict(rows) == kinds
