from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deployments.cli.pieces import Columns, Piece, Reading
from deployments.cli.readers import read_documents
from deployments.cli.tables import read_json_lines

NAMED = Columns(id="key", text="body", title="headline", source="url")


def read(file: Path, **reading: Any) -> list[Any]:
    """The documents of a file, and in their place the problems without its name."""
    pieces = list(read_documents(file.name, file, Reading(**reading)))
    assert sum(piece.size for piece in pieces) == file.stat().st_size
    found = [piece.document or piece.problem for piece in pieces]
    return [one.replace(str(file), "") if isinstance(one, str) else one for one in found if one]


def lines(folder: Path, content: str | bytes) -> Path:
    return write(folder / "f.jsonl", content)


def write(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_json_lines_are_documents_as_they_stand(tmp_path: Path) -> None:
    content = ('{"id": "x", "text": "a"}', "", '{"text": "b", "source": "s"}', '{"_id": "y"}')
    assert read(lines(tmp_path, "\n".join(content))) == [
        {"id": "x", "source": "f.jsonl", "text": "a"},
        {"id": "f.jsonl:3", "source": "s", "text": "b"},
        {"id": "y", "source": "f.jsonl"},
    ]


def test_fields_that_are_named_make_the_others_metadata(tmp_path: Path) -> None:
    content = (
        '{"key": 7, "body": "t", "headline": "T", "url": "u", "year": 2020, "tags": ["a", null]}\n'
        '{"key": null, "body": "t", "headline": " ", "metadata": {"lang": "en"}, "x": null}\n'
        '{"key": "z", "body": ""}\n'
        '{"key": "z", "boby": "t"}\n'
    )
    assert read(lines(tmp_path, content), columns=Columns(id="key", text="body")) == [
        {
            "id": "7",
            "text": "t",
            "title": None,
            "source": "f.jsonl",
            "metadata": {"headline": "T", "url": "u", "year": 2020, "tags": ["a", None]},
        },
        {
            "id": "f.jsonl:2",
            "text": "t",
            "title": None,
            "source": "f.jsonl",
            "metadata": {"lang": "en", "headline": " "},
        },
        ", line 3: it has no text",
        ", line 4: it has no column body, but boby, key; see --text-column",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1: not JSON"),
        (b'\n{"metadata": {"n": NaN}}', "line 2: not JSON"),
        (b"[1]\n", "line 1: not a JSON object"),
        (b'{"id": "\xe9"}', "line 1: it is not UTF-8, or what --encoding says"),
        (b"[" * 100_000, "line 1: not JSON"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    assert read(lines(tmp_path, content)) == [f", {message}"]


def test_a_bad_line_does_not_hide_the_lines_after_it(tmp_path: Path) -> None:
    content = b'{"id": "x"}\n{"\xff\n{"id": "y", "text": "a\xe2\x80\xa8b"}\n'
    first, problem, last = read(lines(tmp_path, content))
    assert (first["id"], last["id"], last["text"]) == ("x", "y", "a\u2028b")
    assert "line 2" in problem


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    file = lines(tmp_path, '{"id": "x", "text": "a"}\n' * 100_000)
    pieces = read_json_lines("f.jsonl", file, Reading())
    assert next(pieces).size <= 2**18 < file.stat().st_size


def test_a_table_has_the_usual_columns_and_its_others_are_metadata(tmp_path: Path) -> None:
    content = (
        "id,text,title,source,year,price,open,code,note\r\n"
        'a,"Two\nlines, one text.",T,s,2020,1.5,true,007,\r\n'
        "\r\n"
        ",b,,,-1,1.10,True,1e5,null\r\n"
    )
    assert read(write(tmp_path / "f.csv", content)) == [
        {
            "id": "a",
            "text": "Two\nlines, one text.",
            "title": "T",
            "source": "s",
            "metadata": {"year": 2020, "price": 1.5, "open": True, "code": "007"},
        },
        {
            "id": "f.csv:3",
            "text": "b",
            "title": None,
            "source": "f.csv",
            "metadata": {
                "year": -1,
                "price": "1.10",
                "open": "True",
                "code": "1e5",
                "note": "null",
            },
        },
    ]


@pytest.mark.parametrize(
    "cell", ["9007199254740993", "NaN", "-Infinity", "1" * 5000, "t", "-", "[1]"]
)
def test_what_only_looks_like_a_number_is_text(tmp_path: Path, cell: str) -> None:
    (found,) = read(write(tmp_path / "f.csv", f'text,cell\na,"{cell}"\n'))
    assert found["metadata"] == {"cell": cell}


def test_columns_may_be_called_otherwise(tmp_path: Path) -> None:
    content = "key;headline;body;url;id\n1;T;t;u;9\n"
    assert read(write(tmp_path / "f.csv", content), columns=NAMED, delimiter=";") == [
        {"id": "1", "text": "t", "title": "T", "source": "u", "metadata": {"id": 9}}
    ]


def test_tabs_part_the_cells_of_a_tsv_file(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path / "f.tsv", "_id\ttext\n1\ta, b\n"))
    assert (found["id"], found["text"]) == ("1", "a, b")


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("a,b\n1,2\n", [": it has no column text, but a, b; see --text-column"]),
        ("text,a,a\n1,2,3\n", [": two of its columns have the same name"]),
        (
            "text,a\nx\n,1\ny,1,2\n",
            [
                ", line 2: 1 cells, not 2",
                ", line 3: it has no text",
                ", line 4: 3 cells, not 2",
            ],
        ),
        (b"text\n\xe9\n", [", line 2: it is not UTF-8, or what --encoding says"]),
        ('text\n"open\n', [": line 2: unexpected end of data"]),
    ],
)
def test_what_is_wrong_with_a_table_is_named(
    tmp_path: Path, content: str | bytes, problems: list[str]
) -> None:
    assert read(write(tmp_path / "f.csv", content)) == problems


def test_a_column_that_was_asked_for_and_is_not_there_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "f.csv", "text,a\nx,1\n")
    assert read(file, columns=Columns(title="headline")) == [
        ": it has no column headline, but a, text; see --text-column"
    ]


def test_rows_of_parquet_keep_their_types(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
    table = pa.table(
        {
            "_id": [7, None],
            "text": ["a", "b"],
            "title": [None, "T"],
            "n": [1, 2],
            "x": [float("nan"), 0.5],
            "at": pa.array([moment, None], pa.timestamp("ns", "UTC")),
            "day": [date(2026, 1, 2), None],
            "price": [Decimal("12.30"), None],
            "raw": [b"\x00", None],
            "tags": [["a"], None],
            "nested": [{"k": moment}, None],
        }
    )
    pq.write_table(table, tmp_path / "f.parquet")
    assert read(tmp_path / "f.parquet") == [
        {
            "id": "7",
            "text": "a",
            "title": None,
            "source": "f.parquet",
            "metadata": {
                "n": 1,
                "at": "2026-01-02T03:04:05.678901+00:00",
                "day": "2026-01-02",
                "price": 12.3,
                "tags": ["a"],
                "nested": {"k": "2026-01-02T03:04:05.678901+00:00"},
            },
        },
        {
            "id": "f.parquet:2",
            "text": "b",
            "title": "T",
            "source": "f.parquet",
            "metadata": {"n": 2, "x": 0.5},
        },
    ]


def test_parquet_without_a_column_of_text_is_a_problem(tmp_path: Path) -> None:
    pq.write_table(pa.table({"body": ["a"], "n": [1]}), tmp_path / "f.parquet")
    assert read(tmp_path / "f.parquet") == [
        ": it has no column text, but body, n; see --text-column"
    ]
    (found,) = read(tmp_path / "f.parquet", columns=Columns(text="body"))
    assert found["text"] == "a"


def test_a_row_without_text_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None, "b"]}), tmp_path / "f.parquet")
    first, problem, last = read(tmp_path / "f.parquet")
    assert (first["id"], problem, last["id"]) == (
        "f.parquet:1",
        ", row 2: it has no text",
        "f.parquet:3",
    )


def test_rows_of_parquet_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [f"text {n}" for n in range(10_000)]}), tmp_path / "f.parquet")
    pieces: Iterator[Piece] = read_documents("f", tmp_path / "f.parquet", Reading())
    documents = [piece.document for piece in pieces if piece.document]
    assert [one["text"] for one in documents] == [f"text {n}" for n in range(10_000)]
