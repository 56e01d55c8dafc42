"""The reports: one SQL statement each, in report_sql, over what a window holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from tracker.database import Cursor
from tracker.reads import utc
from tracker.records import Window
from tracker.report_rows import STATED

STATEMENTS = Path(__file__).with_name("report_sql")
BEGINNING = datetime(1, 1, 1, tzinfo=timezone.utc)
AGAIN_S = 0.1


def select_report(cursor: Cursor, name: str, window: Window, limit: int, offset: int) -> list[Any]:
    """Return rows of the report `name`, which is one of STATED."""
    cursor.execute(statement(name), parameters(window, limit, offset))
    columns = [column[0] for column in cursor.description]
    row_of = STATED[name]
    return [
        row_of(**dict(zip(columns, map(readable, row), strict=True))) for row in cursor.fetchall()
    ]


@cache
def statement(name: str) -> str:
    """Return a report's statement: what all share, then its own."""
    parts = ("windowed", name)
    return "\n".join((STATEMENTS / f"{part}.sql").read_text("utf-8") for part in parts)


def parameters(window: Window, limit: int, offset: int) -> dict[str, Any]:
    """What every statement is given; a window without an end goes up to now."""
    return {
        "tenant": window.tenant,
        "corpus": window.corpus,
        "since": window.since or BEGINNING,
        "until": window.until or datetime.now(timezone.utc),
        "limit": limit,
        "offset": offset,
    }


@contextmanager
def time_limit(cursor: Cursor, seconds: float) -> Iterator[None]:
    """Break off what the cursor runs when the time is up: DuckDB then raises InterruptException."""
    done = threading.Event()

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            cursor.interrupt()  # in vain where no statement runs, so it must come again
            wait = AGAIN_S

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()  # a closed cursor must not be interrupted


def readable(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else value
