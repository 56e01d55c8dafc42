from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from deployments.cli.main import app
from deployments.cli.reports import columns_of
from tests.deployments.cli.server import SmallServer
from tracker.report_rows import ROWS

FREQUENCIES = [
    {
        "corpus": "docs",
        "query": f"how [bold]old[/bold] is {name}, please?",
        "searches": searches,
        "share": searches / 5,
        "first_searched_at": "2026-03-01T12:00:00+00:00",
        "last_searched_at": "2026-03-01T12:00:00.250000+00:00",
    }
    for name, searches in (("it", 3), ("she", 2))
]
CLUSTER = {
    "corpus": "docs",
    "queries": ["opening hours", "when are you open"],
    "searches": 7,
    "links": 1,
    "mean_jaccard": 0.75,
    "shared_documents": ["visitors/times.md"],
}


def ask(*arguments: str, rows: list[dict[str, Any]] = FREQUENCIES) -> tuple[Result, list[str]]:
    """Run the command against a server that gives these rows; return its result, and what it was
    asked."""

    def answer(method: str, path: str, request: Any) -> tuple[int, Any]:
        query = parse_qs(urlsplit(path).query)
        start, limit = int(query.get("next", ["0"])[0]), int(query["limit"][0])
        end = start + limit
        return 200, {"items": rows[start:end], "next": str(end) if end < len(rows) else None}

    with SmallServer(answer) as server:
        result = CliRunner().invoke(app, ["report", *arguments, "--url", server.url])
    return result, [path for _, path, _ in server.requests]


def test_a_report_is_a_table_whose_lines_are_whole() -> None:
    result, asked = ask("query-frequency")
    assert result.exit_code == 0, result.output
    assert [line.split("  ")[0] for line in result.stdout.splitlines()] == [
        "corpus",
        "docs",
        "docs",
    ]
    header, first, _ = result.stdout.splitlines()
    assert header.split() == list(columns_of("query-frequency"))
    assert "how [bold]old[/bold] is it, please?" in first
    assert first.split()[-7:] == ["please?", "3", "0.6", *["2026-03-01", "12:00:00"] * 2]
    assert asked == ["/v1/reports/query-frequency?limit=50"]


def test_the_window_goes_to_the_server_and_a_date_is_its_first_moment() -> None:
    options = ["--corpus", "docs", "--since", "2026-01-01", "--until", "2026-02-01T12:00:00+01:00"]
    _, (asked,) = ask("latency", "--limit", "7", *options, rows=[])
    assert parse_qs(urlsplit(asked).query) == {
        "corpus": ["docs"],
        "since": ["2026-01-01T00:00:00Z"],
        "until": ["2026-02-01T12:00:00+01:00"],
        "limit": ["7"],
    }


def test_json_is_one_object_with_all_rows_of_all_pages() -> None:
    result, asked = ask("query-frequency", "--json", "--limit", "1001", rows=FREQUENCIES * 501)
    assert json.loads(result.stdout) == {
        "report": "query-frequency",
        "items": (FREQUENCIES * 501)[:1001],
    }
    assert [parse_qs(urlsplit(path).query).get("next") for path in asked] == [None, ["1000"]]


def test_csv_has_a_header_empty_cells_for_null_and_lists_as_json() -> None:
    result, _ = ask("query-clusters", "--csv", rows=[CLUSTER, {**CLUSTER, "mean_jaccard": None}])
    lists = '"[""opening hours"", ""when are you open""]",7,1,{},"[""visitors/times.md""]"'
    assert result.stdout.splitlines() == [
        "corpus,queries,searches,links,mean_jaccard,shared_documents",
        f"docs,{lists.format('0.75')}",
        f"docs,{lists.format('')}",
    ]


def test_a_parquet_file_has_the_types_of_the_columns_also_without_rows(tmp_path: Path) -> None:
    full, empty = tmp_path / "full.parquet", tmp_path / "empty.parquet"
    ask("query-frequency", "--parquet", str(full))
    ask("query-frequency", "--parquet", str(empty), rows=[])
    schema = pa.schema(
        [
            ("corpus", pa.string()),
            ("query", pa.string()),
            ("searches", pa.int64()),
            ("share", pa.float64()),
            ("first_searched_at", pa.timestamp("us", tz="UTC")),
            ("last_searched_at", pa.timestamp("us", tz="UTC")),
        ]
    )
    assert pq.read_schema(full) == pq.read_schema(empty) == schema
    assert pq.read_table(empty).num_rows == 0
    first, _ = pq.read_table(full).to_pylist()
    noon = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    assert first == {
        **FREQUENCIES[0],
        "first_searched_at": noon,
        "last_searched_at": noon.replace(microsecond=250_000),
    }


@pytest.mark.parametrize("name", ROWS)
def test_every_report_can_be_written_and_shown_without_rows(name: str, tmp_path: Path) -> None:
    written, _ = ask(name, "--parquet", str(tmp_path / "file"), rows=[])
    assert written.exit_code == 0, written.output
    shown, _ = ask(name, rows=[])
    assert shown.stdout.split() == pq.read_schema(tmp_path / "file").names


def test_lists_stay_lists_in_a_parquet_file(tmp_path: Path) -> None:
    ask("query-clusters", "--parquet", str(tmp_path / "file"), rows=[CLUSTER])
    assert pq.read_table(tmp_path / "file").to_pylist() == [CLUSTER]


@pytest.mark.parametrize("wrong", [["no-report"], ["latency", "--json", "--csv"], []])
def test_a_wrong_call_asks_nothing(wrong: list[str]) -> None:
    result, asked = ask(*wrong)
    assert (result.exit_code, asked) == (2, [])


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    result, _ = ask("latency", "--parquet", str(tmp_path / "none" / "file"), rows=[])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
