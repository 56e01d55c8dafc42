"""Judged queries, in the formats of the BEIR collections."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deployments.cli.pieces import UnreadableFile


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query and the grades of documents for it; above 0 is relevant."""

    id: str
    text: str
    gains: Mapping[str, float]


def read_judged(queries: Path, qrels: Path, limit: int | None = None) -> list[JudgedQuery]:
    """Return the first `limit` queries that have judgements, in the order of their file.

    `queries` holds JSON lines with `_id` (or `id`) and `text`; `qrels` holds lines of query id,
    document id and grade, parted by tabs, with or without a first line that names them. Raises
    UnreadableFile, naming file and line.
    """
    gains = read_qrels(qrels)
    judged = [JudgedQuery(id, text, gains[id]) for id, text in read_queries(queries) if id in gains]
    if not judged:
        raise UnreadableFile(f"{qrels}: none of the queries in {queries} is judged")
    return judged[:limit]


def read_queries(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in lines_of(path):
        try:
            query = json.loads(line)
            id, text = query.get("_id", query.get("id")), query["text"]
        except (ValueError, KeyError, AttributeError, RecursionError):
            raise UnreadableFile(f"{path}, line {number}: needs JSON with _id and text") from None
        if not (isinstance(id, str) and isinstance(text, str) and text.strip()):
            raise UnreadableFile(f"{path}, line {number}: _id and text must be filled strings")
        yield id, text


def read_qrels(path: Path) -> dict[str, dict[str, float]]:
    """Return the grades of each query; of two for one document the last counts."""
    gains: dict[str, dict[str, float]] = {}
    for number, line in lines_of(path):
        fields = line.split("\t")
        grade = number_of(fields[-1])
        if len(fields) == 3 and grade is not None:
            gains.setdefault(fields[0], {})[fields[1]] = grade
        elif number > 1 or len(fields) != 3:
            raise UnreadableFile(
                f"{path}, line {number}: needs query id, document id and grade, parted by tabs"
            )
    return gains


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the filled lines with their numbers; a line ends at a line feed only."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UnreadableFile(f"{path}: {reason}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def number_of(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
