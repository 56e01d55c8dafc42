"""Reading text as what it is encoded in: by its mark, else as the user says, else as UTF-8."""

from __future__ import annotations

import codecs
import re
from io import TextIOWrapper
from pathlib import Path

from deployments.cli.pieces import UnreadableFile

UTF_8 = "utf-8"
# The longer marks come first, for the shorter begin them.
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
SURROGATE = re.compile("[\ud800-\udfff]")
# No text of a document may be as large as this, and files are read whole.
MAX_FILE_BYTES = 64 * 2**20


def check_encoding(encoding: str) -> None:
    """Raise UnreadableFile for a name that is none of an encoding of text."""
    try:
        "a".encode(encoding)
    except LookupError:
        raise UnreadableFile("no encoding of text is called so: try utf-8, cp1252") from None


def open_text(file: Path, encoding: str | None, newline: str | None = None) -> TextIOWrapper:
    """Open a file; a byte that is not of its encoding reads as a lone surrogate."""
    with file.open("rb") as head:
        encoding = mark_of(head.read(4)) or encoding or UTF_8
    return file.open(encoding=encoding, errors="surrogateescape", newline=newline)


def mark_of(content: bytes) -> str | None:
    """Return the encoding that content begins with the mark of."""
    return next((name for mark, name in MARKS.items() if content.startswith(mark)), None)


def check_text(text: str) -> None:
    """Raise UnreadableFile for text that was not of the encoding that it was read with."""
    if not text.isascii() and SURROGATE.search(text):
        raise UnreadableFile("it is not UTF-8, or what --encoding says")


def read_bytes(file: Path) -> bytes:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise UnreadableFile("it is too large for one document")
    return file.read_bytes()


def read_text(file: Path, encoding: str | None) -> str:
    """Return all of a file. Raises OSError, or UnreadableFile if it is not what it should be."""
    if file.stat().st_size > MAX_FILE_BYTES:
        raise UnreadableFile("it is too large for one document")
    with open_text(file, encoding) as opened:
        text = opened.read()
    check_text(text)
    return text
