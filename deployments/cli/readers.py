"""Files as documents: text, Markdown and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SUFFIXES = frozenset({".txt", ".md", ".jsonl"})


class UnreadableFile(Exception):
    """A file, or a line of it, is no document; the message says where and why."""


def find_files(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """Return (name, file) for each file and each readable file under each folder, sorted.

    A name is the path relative to the folder given, with forward slashes: it becomes the
    document's id, so that the same folder gives the same ids on every run and machine. Raises
    UnreadableFile for two files that would have the same one.
    """
    found: dict[Path, str] = {}
    for path in paths:
        if path.is_dir():
            for file in path.rglob("*"):
                if file.is_file() and file.suffix.lower() in SUFFIXES and not is_hidden(file, path):
                    found.setdefault(file, file.relative_to(path).as_posix())
        else:
            found.setdefault(path, path.name)
    named: dict[str, Path] = {}
    for file, name in found.items():
        if named.setdefault(name, file) != file:
            raise UnreadableFile(f"{named[name]} and {file} would both be the document {name}")
    return sorted(named.items())


def is_hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(root).parts)


def read_documents(name: str, file: Path) -> Iterator[dict[str, Any] | UnreadableFile]:
    """Yield a file's documents, and an UnreadableFile for whatever of it is none."""
    suffix = file.suffix.lower()
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        yield UnreadableFile(f"{file}: {reason}")
        return
    if suffix not in SUFFIXES:
        yield UnreadableFile(f"{file}: only {', '.join(sorted(SUFFIXES))} are read")
    elif suffix == ".jsonl":
        yield from read_lines(name, file, text)
    elif text.strip():
        title, body = split_title(text) if suffix == ".md" else (None, text)
        yield {"id": name, "text": body, "title": title, "source": name}


def read_lines(name: str, file: Path, text: str) -> Iterator[dict[str, Any] | UnreadableFile]:
    """Yield a document a line; one without an id is named by its line.

    A bad line yields its error, so that the lines after it are still read. Lines end at a line
    feed only: a JSON string may hold what else Python takes for the end of a line.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            yield UnreadableFile(f"{file}, line {number}: not JSON")
            continue
        if not isinstance(document, dict):
            yield UnreadableFile(f"{file}, line {number}: not a JSON object")
            continue
        # Public test collections write `_id`.
        known = document.pop("_id", None) or f"{name}:{number}"
        yield {"id": known, "source": name, **document}


def refuse_constant(name: str) -> None:
    """NaN and the infinities are Python's, not JSON's."""
    raise ValueError(name)


def split_title(markdown: str) -> tuple[str | None, str]:
    """Take a first-level heading on the first line as the title."""
    first, _, rest = markdown.lstrip().partition("\n")
    if first.startswith("# ") and rest.strip():
        return first[2:].strip() or None, rest.strip()
    return None, markdown
