from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployments.cli.pieces import Piece, Reading
from deployments.cli.readers import READERS, read_documents


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def read(
    folder: Path, name: str, content: str | bytes, encoding: str | None = None
) -> list[dict[str, Any] | str]:
    """The documents of a file, and in their place the problems."""
    file = write(folder, name, content)
    pieces = list(read_documents(name, file, Reading(encoding=encoding)))
    assert sum(piece.size for piece in pieces) == file.stat().st_size
    found = [piece.problem or piece.document for piece in pieces]
    return [one for one in found if one is not None]


@pytest.mark.parametrize(
    ("name", "content", "document"),
    [
        ("a.txt", "A text.\r\nMore.", {"text": "A text.\nMore."}),
        ("a.md", "# Parking\n\nBehind it.\n", {"text": "Behind it.", "title": "Parking"}),
        ("a.markdown", "Plain.", {"text": "Plain.", "title": None}),
        ("a.html", "<title>T</title><p>Text.", {"text": "Text.", "title": "T"}),
        ("a.HTM", "<p>Text.", {"text": "Text.", "title": None}),
    ],
)
def test_a_file_is_a_document_named_by_its_path(
    tmp_path: Path, name: str, content: str, document: dict[str, Any]
) -> None:
    (found,) = read(tmp_path, name, content)
    assert isinstance(found, dict)
    assert found.pop("metadata", {}) == {}
    assert found == {"id": name, "source": name, **document}


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("é漢".encode(), None),
        ("\ufeffé漢".encode(), None),
        ("é漢".encode("utf-16"), None),
        ("é漢".encode("utf-32"), None),
        ("é漢".encode("utf-16"), "cp1252"),
        ("é漢".encode("gb18030"), "gb18030"),
    ],
)
def test_text_is_read_in_the_encoding_that_it_begins_with_or_that_is_given(
    tmp_path: Path, content: bytes, encoding: str | None
) -> None:
    assert read(tmp_path, "a.txt", content, encoding) == [
        {"id": "a.txt", "source": "a.txt", "text": "é漢"}
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\xe9", "it is not UTF-8, or what --encoding says"),
        ("a.md", b"# \xe9", "it is not UTF-8, or what --encoding says"),
        ("a.txt", b"\xff\xfea", "it is not in the encoding that it begins with"),
        ("a.html", b"<p>\xe9", "it is not in the encoding that it names"),
        ("a.parquet", b"PAR1", "it is not Parquet that can be read"),
        ("a.pdf", b"x", "only .csv, .htm, .html, .jsonl, .markdown, .md, .ndjson, .parquet, .tsv"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (problem,) = read(tmp_path, name, content)
    assert isinstance(problem, str)
    assert problem.startswith(f"{tmp_path / name}: {message}")


def test_a_file_that_is_gone_is_a_problem_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    assert list(read_documents("a.txt", file, Reading())) == [
        Piece(0, problem=f"{file}: No such file or directory"),
        Piece(0),
    ]


@pytest.mark.parametrize("name", [f"a{suffix}" for suffix in READERS if suffix != ".parquet"])
def test_an_empty_file_holds_no_document(tmp_path: Path, name: str) -> None:
    empty = "text\n" if name.endswith("sv") else " \n"
    assert read(tmp_path, name, empty) == []


def test_a_file_larger_than_any_document_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    with file.open("wb") as opened:
        opened.truncate(65 * 2**20)
    first, rest = read_documents("a.txt", file, Reading())
    assert first.problem == f"{file}: it is too large for one document"
    assert rest == Piece(65 * 2**20)
