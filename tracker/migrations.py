"""Bringing a file's tables up to date: the numbered steps of schema.sql that it lacks."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import Unavailable

if TYPE_CHECKING:
    from tracker.database import Cursor

SCHEMA = Path(__file__).with_name("schema.sql")


def read_steps() -> list[str]:
    """Return the steps of schema.sql; the first is number 1."""
    _, *parts = re.split(r"^-- Step (\d+)$", SCHEMA.read_text("utf-8"), flags=re.MULTILINE)
    return parts[1::2]


def migrate(cursor: Cursor) -> None:
    """Run the steps that the current database lacks, in one transaction of its own.

    Raises Unavailable, the file untouched, for one that has a step which is unknown here.
    """
    steps = read_steps()
    done = last_step(cursor)
    if done > len(steps):
        raise Unavailable("the tracker's file was written by a newer version")
    cursor.execute("BEGIN")
    for number in range(done + 1, len(steps) + 1):
        cursor.execute(steps[number - 1])
        applied_at = datetime.now(timezone.utc)
        cursor.execute("INSERT INTO schema_version VALUES (?, ?)", [number, applied_at])
    cursor.execute("COMMIT")


def last_step(cursor: Cursor) -> int:
    """Return the number of the last step that was run, 0 for a file without tables."""
    tables = cursor.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
    ).fetchall()
    if ("schema_version",) not in tables:
        return 0
    row = cursor.execute("SELECT max(version) FROM schema_version").fetchone()
    return 0 if row is None else int(row[0])
