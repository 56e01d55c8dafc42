"""Files of many documents: JSON lines, CSV and Parquet. They are read bit by bit."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from deployments.cli.encodings import check_text, open_text
from deployments.cli.pieces import Columns, Piece, Reading, UnreadableFile
from deployments.cli.rows import cell_value, check_columns, plain_value, to_document

# Above the largest text that a server takes as it is shipped.
LONGEST_CELL = 16 * 2**20
ROWS_AT_ONCE = 256


def read_json_lines(name: str, file: Path, reading: Reading) -> Iterator[Piece]:
    """Yield a document a line, as it stands there, or by its columns if any are named.

    A line without an id is named by its number. A bad line is a problem and stops no other. Lines
    end at a line feed only: a JSON string may hold what else Python takes for the end of a line.
    """
    with open_text(file, reading.encoding, newline="\n") as lines:
        position = Position(lines)
        for number, line in enumerate(lines, start=1):
            size = position.step()
            if line.strip():
                make = partial(line_document, line, f"{name}:{number}", name, reading.columns)
                yield piece_of(size, f"{file}, line {number}", make)


def line_document(line: str, place: str, source: str, columns: Columns) -> dict[str, Any]:
    check_text(line)
    try:
        found = json.loads(line, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise UnreadableFile("not JSON") from None
    if not isinstance(found, dict):
        raise UnreadableFile("not a JSON object")
    if columns.given:
        check_columns(list(found), columns)
        return to_document(found, columns, place, source, plain_value)
    # Public test collections write `_id`.
    known = found.pop("_id", None) or place
    return {"id": known, "source": source, **found}


def refuse_constant(name: str) -> None:
    """NaN and the infinities are Python's, not JSON's."""
    raise ValueError(name)


def read_csv(name: str, file: Path, reading: Reading) -> Iterator[Piece]:
    """Yield a document a row; the first row names the columns.

    A row with more or fewer cells is a problem and stops no other.
    """
    usual = "\t" if file.suffix.lower() == ".tsv" else ","
    csv.field_size_limit(LONGEST_CELL)
    with open_text(file, reading.encoding, newline="") as text:
        position = Position(text)
        rows = csv.reader(text, delimiter=reading.delimiter or usual, strict=True)
        try:
            header = next(rows, [])
            check_columns(header, reading.columns)
            for number, row in enumerate(rows, start=1):
                size = position.step()
                if row:
                    place = f"{name}:{number}"
                    make = partial(row_document, header, row, place, name, reading.columns)
                    yield piece_of(size, f"{file}, line {rows.line_num}", make)
        except csv.Error as error:
            # Behind a cell that is quoted wrong no row can be told from another.
            raise UnreadableFile(f"line {rows.line_num}: {error}") from None


def row_document(
    header: Sequence[str], row: Sequence[str], place: str, source: str, columns: Columns
) -> dict[str, Any]:
    if len(row) != len(header):
        raise UnreadableFile(f"{len(row)} cells, not {len(header)}")
    for cell in row:
        check_text(cell)
    return to_document(dict(zip(header, row, strict=True)), columns, place, source, cell_value)


def read_parquet(name: str, file: Path, reading: Reading) -> Iterator[Piece]:
    """Yield a document a row."""
    # Not at the top: it is slow to import, and few commands read a file at all.
    from deployments.cli.parquet import read_rows

    for number, (size, row) in enumerate(read_rows(file, reading.columns), start=1):
        make = partial(to_document, row, reading.columns, f"{name}:{number}", name, plain_value)
        yield piece_of(size, f"{file}, row {number}", make)


def piece_of(size: int, where: str, make: Callable[[], dict[str, Any]]) -> Piece:
    """Return what `make` makes, or the problem that it has."""
    try:
        return Piece(size, make())
    except UnreadableFile as error:
        return Piece(size, problem=f"{where}: {error}")


class Position:
    """How far a file that is being read has come, as near as its buffer tells."""

    def __init__(self, opened: TextIOWrapper) -> None:
        self.opened = opened
        self.last = 0

    def step(self) -> int:
        """Return the bytes since the last step."""
        now = os.lseek(self.opened.fileno(), 0, os.SEEK_CUR)
        size, self.last = now - self.last, now
        return size
