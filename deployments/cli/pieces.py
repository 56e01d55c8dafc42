"""What readers are told, and what they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class UnreadableFile(Exception):
    """A file, or a part of it, is no document; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read next of a file: a document, a problem where there is none, or neither.

    `size` is how many bytes of the file it took, as near as can be told.
    """

    size: int
    document: dict[str, Any] | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table are what of a document; None is the usual name, if it is there.

    All others are its metadata.
    """

    id: str | None = None
    text: str | None = None
    title: str | None = None
    source: str | None = None

    @property
    def given(self) -> frozenset[str]:
        named = (self.id, self.text, self.title, self.source)
        return frozenset(name for name in named if name is not None)


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read, as far as they do not say so themselves.

    Without an `encoding` they are UTF-8. A `delimiter` parts the cells of a table; without one
    it is a comma, in a .tsv file a tab.
    """

    columns: Columns = field(default_factory=Columns)
    encoding: str | None = None
    delimiter: str | None = None
