"""What is put into a corpus: documents, and the chunks that are indexed and scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class CorpusKey:
    """A corpus of one tenant. The two names are never joined without escaping."""

    tenant: str
    name: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """One indexed passage. `metadata` is the user's own JSON object."""

    id: str
    document_id: str
    chunk_index: int
    text: str
    title: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> str:
        """The text that is indexed, embedded and scored."""
        return join_body(self.title, self.text)


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a client sends it; `chunks`, where given, are its text already cut."""

    id: str
    text: str
    title: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    chunks: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PutResult:
    """What came of putting one document: stored, unchanged, or failed with an `error`."""

    id: str
    status: Literal["stored", "unchanged", "failed"]
    chunks: int | None = None
    error: str | None = None


def join_body(title: str | None, text: str) -> str:
    return f"{title}\n{text}" if title else text


def chunk_id(document_id: str, chunk_index: int) -> str:
    return f"{document_id}#{chunk_index}"
