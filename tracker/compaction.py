"""Copying the tracker's tables into a new file, which takes the old one's place.

A file does not shrink when rows are deleted, it is refilled; what is to give the space back has to
be written anew. The copy is a database attached to the open one.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import Unavailable
from tracker.database import Cursor, Database, beside, count, file_errors
from tracker.migrations import migrate
from tracker.records import Compacted

COPY = "compacted"
# Their rows never change and, as long as nothing is purged, are only added to. All other tables
# are small beside them.
GROWING = ("retrievals", "retrieved_hits")
# What a new file has of itself.
OWN = ("schema_version",)


class Compaction:
    """One writing anew. `late` names the retrievals that were recorded since it began."""

    def __init__(self, database: Database) -> None:
        self.late: list[str] = []
        self._database = database
        self._file = beside(database.path, ".compacted")

    def begin(self) -> None:
        """Begin a new database beside the open one, with the same tables."""
        self.abandon()
        place = str(self._file).replace("'", "''")
        with self._database.session() as cursor:
            cursor.execute(f"ATTACH '{place}' AS {COPY}")
            cursor.execute(f"USE {COPY}")
            migrate(cursor)

    def copy(self) -> None:
        """Copy the retrievals and hits that there are now: nearly all of the work."""
        with self._database.transaction() as cursor:
            for table in GROWING:
                cursor.execute(f"INSERT INTO {COPY}.{table} BY NAME SELECT * FROM {table}")
        with self._database.session() as cursor:
            cursor.execute(f"CHECKPOINT {COPY}")

    def finish(self) -> Compacted:
        """Copy the rest, and put the copy in the original's place."""
        with self._database.transaction() as cursor:
            copy_rest(cursor, self.late)
        with self._database.session() as cursor:
            cursor.execute("CHECKPOINT")
            cursor.execute(f"CHECKPOINT {COPY}")
            cursor.execute(f"DETACH {COPY}")
        before = self._database.path.stat().st_size
        after = self._file.stat().st_size
        self._database.replace(self._file)
        return Compacted(before, after)

    def abandon(self) -> None:
        """Remove the copy, or what a process that died left of one."""
        with self._database.session() as cursor:
            cursor.execute(f"DETACH DATABASE IF EXISTS {COPY}")
        with file_errors():
            for file in (self._file, beside(self._file, ".wal")):
                file.unlink(missing_ok=True)


def copy_rest(cursor: Cursor, late: Sequence[str]) -> None:
    """Copy the retrievals of these ids that the copy lacks, with their hits, and all other tables.

    Raises Unavailable if the copy then has another number of rows than the original.
    """
    rows = cursor.execute(
        f"INSERT INTO {COPY}.retrievals BY NAME SELECT * FROM retrievals"
        " WHERE retrieval_id BETWEEN ? AND ? AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))"
        " ON CONFLICT DO NOTHING RETURNING retrieval_id, retrieved_at",
        [min(late, default=""), max(late, default=""), list(late)],
    ).fetchall()
    times = [time for _, time in rows]
    if rows:
        cursor.execute(
            f"INSERT INTO {COPY}.retrieved_hits BY NAME SELECT * FROM retrieved_hits"
            " WHERE retrieved_at BETWEEN ? AND ? AND retrieval_id IN (SELECT unnest(?::VARCHAR[]))",
            [min(times), max(times), [retrieval_id for retrieval_id, _ in rows]],
        )
    tables = tables_of(cursor)
    for table in tables:
        if table not in GROWING:
            cursor.execute(f"INSERT INTO {COPY}.{table} BY NAME SELECT * FROM {table}")
    for table in tables:
        copied, there = (
            count(cursor, f"SELECT count(*) FROM {name}") for name in (f"{COPY}.{table}", table)
        )
        if copied != there:
            raise Unavailable(f"the copy of {table} has {copied} rows instead of {there}")


def tables_of(cursor: Cursor) -> list[str]:
    rows = cursor.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
        " ORDER BY table_name"
    ).fetchall()
    return [name for (name,) in rows if name not in OWN]
