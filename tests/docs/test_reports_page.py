"""docs/reports.md tells the truth: each of its results is computed again from its example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from tests.docs.pages import TABLE, cells, section, table
from tests.docs.reported import EXAMPLE, PAGE, WINDOW, cell_of, fill, search_rows
from tracker.report_rows import ROWS, STATED
from tracker.reports import statement
from tracker.store import TrackerStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackerStore]:
    path = tmp_path_factory.mktemp("reports") / "tracker.duckdb"
    filled = TrackerStore.open(path, memory_limit="256MB", threads=1)
    fill(filled)
    yield filled
    filled.close()


def result_of(name: str) -> tuple[list[str], list[list[str]]]:
    """The last table of a report's section: its header and rows."""
    *_, last = TABLE.finditer(section(PAGE, name))
    header, _, *rows = [cells(line) for line in last[0].splitlines()]
    return header, rows


@pytest.mark.parametrize("name", STATED)
def test_a_result_is_what_the_report_says_of_the_example(store: TrackerStore, name: str) -> None:
    header, printed = result_of(name)
    rows = store.report(name, WINDOW)
    assert printed == [[cell_of(getattr(row, column)) for column in header] for row in rows]
    assert printed


@pytest.mark.parametrize("name", STATED)
def test_every_column_of_a_report_is_explained_and_no_other(name: str) -> None:
    explained = [row[0] for row in table(section(PAGE, name), "column", "is")]
    named = [column for cell in explained for column in cell.split(", ")]
    assert named == [field.name for field in fields(ROWS[name])]


def test_the_page_lists_every_report() -> None:
    listed = [re.sub(r"\[(.*)\]\(#\1\)", r"\1", row[0]) for row in table(PAGE, "report", "asks")]
    assert listed == list(ROWS)


def test_every_printed_row_is_stored(store: TrackerStore) -> None:
    counts = store.counts()
    assert counts.retrievals == len(search_rows()) == 7
    assert counts.hits == EXAMPLE.count("#0`") + EXAMPLE.count("#1`") == 12
    assert (counts.feedback, counts.documents) == (6, 5)


def test_the_signals_of_the_page_are_those_there_are(store: TrackerStore) -> None:
    signals = [row[0] for row in table(section(PAGE, "quality-signals"), "signal", "if")]
    assert signals == [row.signal for row in store.report("quality-signals", WINDOW)]


@pytest.mark.parametrize(
    ("name", "bound", "text"),
    [
        ("quality-signals", "chunks_retrieved >= 5 AND judged >= 3", "5 chunks retrieved, at"),
        ("quality-signals", "judged >= 3 AND not_relevant_share >= 0.5", "at least half of them"),
        ("quality-signals", "INTERVAL 30 DAY", "last 30 days"),
        ("low-relevance-queries", "avg(relevance) < 0.5", "below 0.5"),
        ("correlation-graph", "LIMIT 100\n", "100 most frequent"),
        ("query-clusters", "LIMIT 200\n", "200 most frequent"),
        ("query-clusters", "<= 20\n", "the 20 documents"),
    ],
)
def test_the_bounds_of_the_page_are_those_of_the_statements(
    name: str, bound: str, text: str
) -> None:
    assert bound in statement(name)
    assert text in section(PAGE, name)
