"""Files as documents, each kind by the reader of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deployments.cli.encodings import read_bytes, read_text
from deployments.cli.pieces import Piece, Reading, UnreadableFile
from deployments.cli.tables import read_csv, read_json_lines, read_parquet

# Yields the pieces of the file that is called so.
Reader = Callable[[str, Path, Reading], Iterator[Piece]]


def read_documents(name: str, file: Path, reading: Reading) -> Iterator[Piece]:
    """Yield what a file holds; the sizes of its pieces add up to its own.

    What cannot be read is a problem of its place, and of the file if the rest is lost with it.
    """
    left = 0
    try:
        left = file.stat().st_size
        for piece in reader_of(file)(name, file, reading):
            left -= piece.size
            yield piece
    except (OSError, UnicodeError, UnreadableFile) as error:
        yield Piece(0, problem=f"{file}: {reason_of(error)}")
    yield Piece(left)


def reason_of(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is not in the encoding that it begins with, or that --encoding says"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def reader_of(file: Path) -> Reader:
    try:
        return READERS[file.suffix.lower()]
    except KeyError:
        raise UnreadableFile(f"only {', '.join(sorted(READERS))} are read") from None


def read_plain(name: str, file: Path, reading: Reading) -> Iterator[Piece]:
    yield from whole(name, {"text": read_text(file, reading.encoding)})


def read_markdown_file(name: str, file: Path, reading: Reading) -> Iterator[Piece]:
    # Not at the top: few commands read a file at all, and what reads one is slow to import.
    from deployments.cli.markdown import read_markdown

    yield from whole(name, read_markdown(read_text(file, reading.encoding)))


def read_page_file(name: str, file: Path, reading: Reading) -> Iterator[Piece]:
    from deployments.cli.web_pages import read_page

    title, text = read_page(read_bytes(file), reading.encoding)
    yield from whole(name, {"title": title, "text": text})


def whole(name: str, found: Mapping[str, Any]) -> Iterator[Piece]:
    """Yield the document that is a whole file, if there is any text in it."""
    if found["text"].strip():
        yield Piece(0, {"id": name, "source": name, **found})


READERS: Mapping[str, Reader] = {
    ".txt": read_plain,
    ".md": read_markdown_file,
    ".markdown": read_markdown_file,
    ".html": read_page_file,
    ".htm": read_page_file,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
}
