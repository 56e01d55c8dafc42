"""Reports: as a table, as JSON, as CSV, or as a Parquet file."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from deployments.cli.client import DEFAULT_URL, PAGE_ITEMS, Client
from deployments.cli.console import errors, one_line_errors, stop
from tracker.report_rows import ROWS

Row = dict[str, Any]
NAMES = ", ".join(ROWS)
TABLE_ROWS = 50
CELL_CHARS = 80
MAX_WIDTH = 10_000
WHEN = "RFC 3339 time with a zone, or a date (UTC)"


def report(
    name: Annotated[str, typer.Argument(help=f"one of {NAMES}")],
    corpus: Annotated[str | None, typer.Option(help="this corpus only")] = None,
    since: Annotated[str | None, typer.Option(help=f"begin of the window: {WHEN}")] = None,
    until: Annotated[str | None, typer.Option(help="its end, which is not included")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"rows; a table has {TABLE_ROWS}, all else all")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a header")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Parquet file to write")] = None,
    url: Annotated[
        str, typer.Option(envvar="ONEPASS_URL", help="where the application listens")
    ] = DEFAULT_URL,
) -> None:
    """Show what the recorded searches and the feedback tell."""
    if name not in ROWS:
        stop(f"no such report; there are {NAMES}", status=2)
    if as_json + as_csv + (parquet is not None) > 1:
        stop("takes one of --json, --csv and --parquet", status=2)
    is_table = not (as_json or as_csv or parquet)
    limit = limit or (TABLE_ROWS if is_table else None)
    window = {"corpus": corpus, "since": moment(since), "until": moment(until)}
    with one_line_errors(), Client(url) as client:
        pages = client.report(name, min(limit or PAGE_ITEMS, PAGE_ITEMS), window)
        rows = list(islice(pages, limit))
    if as_json:
        print(json.dumps({"report": name, "items": rows}))
    elif as_csv:
        write_csv(name, rows)
    elif parquet is not None:
        write_parquet(name, rows, parquet)
    else:
        show(table_of(name, rows))


def moment(given: str | None) -> str | None:
    """Return a time as the server reads it; a date is its first moment."""
    return f"{given}T00:00:00Z" if given and "T" not in given else given


def columns_of(name: str) -> dict[str, Any]:
    """Return the type of each of a report's columns; one that may be null has its own beside."""
    row = ROWS[name]
    hints = get_type_hints(row)
    return {field.name: without_none(hints[field.name]) for field in fields(row)}


def without_none(hint: Any) -> Any:
    if get_origin(hint) is not UnionType:
        return hint
    (kind,) = (one for one in get_args(hint) if one is not type(None))
    return kind


def table_of(name: str, rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = columns_of(name)
    for column, kind in columns.items():
        table.add_column(column, justify="right" if kind in (int, float) else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell(row[column], kind) for column, kind in columns.items()))
    return table


def show(table: Table) -> None:
    """Print a table in its full width: a terminal may wrap its lines, a pipe must not lose any."""
    wide = Console(width=MAX_WIDTH)
    width = Measurement.get(wide, wide.options, table).maximum
    Console(width=width, soft_wrap=True).print(table)


def cell(value: Any, kind: Any) -> str:
    if value is None:
        return "-"
    if kind is datetime:
        return str(value)[:19].replace("T", " ")
    if isinstance(value, float):
        return f"{value:.4g}"
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return escape(" ".join(text.split())[:CELL_CHARS])


def write_csv(name: str, rows: Sequence[Row]) -> None:
    """Print rows as CSV; a list is a JSON array in its cell, and null is empty."""
    columns = list(columns_of(name))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = [row[column] for column in columns]
        writer.writerow([json.dumps(v) if isinstance(v, list) else v for v in values])


def write_parquet(name: str, rows: Sequence[Row], path: Path) -> None:
    """Write rows with the types of their columns, so that a file without any has them too."""
    import pyarrow as pa  # slow to import, and only this needs it
    import pyarrow.parquet as pq

    kinds = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        datetime: pa.timestamp("us", tz="UTC"),
        list[str]: pa.list_(pa.string()),
    }
    columns = columns_of(name)
    schema = pa.schema(
        [(column, kinds[str if get_origin(k) is Literal else k]) for column, k in columns.items()]
    )
    times = [column for column, kind in columns.items() if kind is datetime]
    typed = [row | {column: parsed(row[column]) for column in times} for row in rows]
    try:
        pq.write_table(pa.Table.from_pylist(typed, schema=schema), path)
    except OSError as error:
        stop(f"{path}: {error.strerror or 'cannot be written'}")
    errors.print(f"{path}: {len(rows)} rows", markup=False, soft_wrap=True)


def parsed(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)
