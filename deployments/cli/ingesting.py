"""Sending documents in batches; a run that was stopped goes on where it stood."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployments.cli.client import Client, ClientError
from deployments.cli.pieces import Piece, Reading
from deployments.cli.readers import read_documents

BATCH_DOCUMENTS = 64
# Some 500 chunks: their embedding takes seconds, and so long at most a stopped run waits.
BATCH_BYTES = 2**18
# So many batches of which nothing could be stored, one after another, and the server is ill.
MAX_FAILED_BATCHES = 5


@dataclass
class Report:
    """What came of an ingest: documents by status; what goes wrong is told at once."""

    tell: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    failed_batches: int = 0

    def fail(self, problem: str) -> None:
        self.counts["failed"] += 1
        self.tell(problem)

    def take(self, results: Iterable[dict[str, Any]]) -> None:
        """Count the results of a batch."""
        stored = False
        for result in results:
            stored |= result["status"] != "failed"
            self.counts[result["status"]] += 1
            if result["error"]:
                self.tell(f"{result['id']}: {result['error']}")
        self.failed_batches = 0 if stored else self.failed_batches + 1

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(self.counts.items()))
        return counts or "nothing to ingest"


class TooManyFailures(ClientError):
    """The server answers, and stores nothing."""


def read_all(files: Iterable[tuple[str, Path]], reading: Reading) -> Iterator[Piece]:
    for name, file in files:
        yield from read_documents(name, file, reading)


def ingest(client: Client, corpus: str, pieces: Iterable[Piece], report: Report) -> Iterator[int]:
    """Send the documents among `pieces`, in order, and yield how many more bytes are done.

    The server keeps a document's digest and skips one that is unchanged, so a second run sends
    everything again and costs little for what is stored. One batch is in hand at a time, whatever
    there is to send.
    """
    batch = Batch()
    for piece in pieces:
        if piece.problem is not None:
            report.fail(piece.problem)
        if piece.document is not None:
            length = len(json.dumps(piece.document))
            if not batch.has_room(piece.document, length):
                send(client, corpus, batch.documents, report)
                yield batch.size
                batch = Batch()
            batch.add(piece.document, length)
        batch.size += piece.size
    if batch.documents:
        send(client, corpus, batch.documents, report)
    yield batch.size


@dataclass
class Batch:
    """Documents for one request, and the bytes of files that they and what is between them took."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    ids: set[Any] = field(default_factory=set)
    length: int = 0
    size: int = 0

    def has_room(self, document: dict[str, Any], length: int) -> bool:
        """Whether it may be added; an id stands in a request once, so that the later replaces."""
        if not self.documents:
            return True
        fits = len(self.documents) < BATCH_DOCUMENTS and self.length + length <= BATCH_BYTES
        return fits and str(document.get("id")) not in self.ids

    def add(self, document: dict[str, Any], length: int) -> None:
        self.documents.append(document)
        self.ids.add(str(document.get("id")))
        self.length += length


def send(client: Client, corpus: str, batch: list[dict[str, Any]], report: Report) -> None:
    """Store a batch. One that is refused is sent again one by one, so that a bad document is
    named and stops no other."""
    try:
        report.take(client.put(corpus, batch))
    except ClientError as error:
        if not error.is_refusal:
            raise
        if len(batch) == 1:
            report.fail(f"{batch[0].get('id')}: {error}")
            return
        for document in batch:
            send(client, corpus, [document], report)
    if report.failed_batches == MAX_FAILED_BATCHES:
        raise TooManyFailures("the server stores nothing any more")
