"""Files of older versions gain what is new; what a version was never changes."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import duckdb
import pytest

from tests.records import comparison_of
from tests.tracker.stores import ALL, NOON, OpenStore, make_record, retrieval_ids
from tracker.migrations import read_steps
from tracker.records import Feedback, RetentionRun


def begin_file(path: Path, version: int) -> None:
    """Begin a file as that version did, with a retrieval, its hit and its feedback."""
    path.parent.mkdir()
    with duckdb.connect(str(path)) as connection:
        for step in read_steps()[:version]:
            connection.execute(step)
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", [version, NOON])
        connection.execute(
            "INSERT INTO retrievals VALUES ('r1', 'acme', 'docs', 'query of r1', ?, 'correct', 1,"
            " true, ['leg:dense'], 2, 3, 4, 5, 'minilm@1f3c', MAP {'total': 8.5})",
            [NOON],
        )
        connection.execute(
            "INSERT INTO retrieved_hits BY NAME SELECT 'r1' AS retrieval_id, 'acme' AS tenant,"
            " 'docs' AS corpus, ? AS retrieved_at, 0 AS position, 'guide#0' AS hit_id,"
            " 'guide' AS document_id, 1 AS retrieval_rank, true AS scored, true AS returned",
            [NOON],
        )
        connection.execute(
            "INSERT INTO feedback VALUES ('r1', 'acme', 'docs', ?, 'guide', 'relevant', ?)",
            [NOON, NOON],
        )
        connection.execute(
            "INSERT INTO retention_runs BY NAME SELECT ? AS started_at, ? AS finished_at,"
            " ? AS cutoff, 7 AS deleted, 'schedule' AS trigger",
            [NOON, NOON, NOON],
        )


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_version_gains_what_it_lacks_and_keeps_what_it_has(
    open_store: OpenStore, path: Path, version: int
) -> None:
    begin_file(path, version)
    later = make_record("r2", 1)
    for round_ in range(2):  # to bring it up to date, and to find it so
        store = open_store()
        found = store.get_record("acme", "r1")
        assert (found.record.query, found.record.timings_ms) == ("query of r1", {"total": 8.5})
        assert [(hit.hit_id, hit.origin) for hit in found.record.hits] == [("guide#0", None)]
        assert found.feedback == (Feedback("r1", "guide", "relevant", NOON),)
        assert store.retention_status().deleted == 7
        assert store.record([later]) == 1 - round_
        assert store.record_comparisons([comparison_of(later)]) == []
        assert store.find_comparisons(ALL) == [comparison_of(later)]
        assert store.damages() == []
        assert store.orphans() == 0
        store.close()
    with duckdb.connect(str(path)) as connection:
        rows = connection.execute("SELECT version FROM schema_version ORDER BY version").fetchall()
    assert rows == [(number,) for number in range(version, 4)]


def test_an_older_file_has_the_tables_of_a_new_one(path: Path, open_store: OpenStore) -> None:
    def tables() -> list[tuple[str, str, str]]:
        open_store().close()
        with duckdb.connect(str(path)) as connection:
            return connection.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns()"
                " WHERE NOT internal ORDER BY ALL"
            ).fetchall()

    new = tables()
    path.unlink()
    path.parent.rename(path.parent.with_name("first"))
    begin_file(path, 1)
    assert tables() == new


def test_a_file_that_cannot_take_all_steps_takes_none(path: Path, open_store: OpenStore) -> None:
    begin_file(path, 1)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE damages (of_another INTEGER)")  # step 3 makes one
    for _ in range(2):
        with pytest.raises(Exception, match="cannot be opened: CatalogException"):
            open_store()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [(1,)]
        connection.execute("DROP TABLE damages")
    assert retrieval_ids(open_store()) == ["r1"]


def test_a_run_of_an_older_file_was_of_all_records(path: Path, open_store: OpenStore) -> None:
    begin_file(path, 2)
    store = open_store()
    store.record_run(RetentionRun(NOON, NOON, NOON, 1, None, "schedule", "acme", "docs"))
    store.close()
    with duckdb.connect(str(path)) as connection:
        rows = connection.execute(
            "SELECT deleted, tenant, corpus FROM retention_runs ORDER BY deleted"
        ).fetchall()
    assert rows == [(1, "acme", "docs"), (7, None, None)]


def test_released_steps_are_never_edited() -> None:
    """A file that has run a step never runs it again: append another one instead."""
    assert [sha256(step.encode()).hexdigest()[:16] for step in read_steps()] == [
        "6998205214cd3ead",
        "4e2814dcddefdbf8",
        "287f796b1f6a5dda",
    ]
