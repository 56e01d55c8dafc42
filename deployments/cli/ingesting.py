"""Sending documents in batches; a run that was stopped goes on where it stood."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from deployments.cli.client import Client, ClientError
from deployments.cli.readers import UnreadableFile, read_documents

BATCH_DOCUMENTS = 64
BATCH_BYTES = 4 * 2**20


class Report:
    """What came of an ingest: counts by status, and what went wrong."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def fail(self, problem: str, documents: int) -> None:
        self.counts["failed"] += documents
        self.problems.append(problem)


def ingest_files(
    client: Client, corpus: str, files: Iterable[tuple[str, Path]], report: Report
) -> Iterator[int]:
    """Send the documents of `files` and yield how many more files are done.

    The server keeps a document's digest and skips one that is unchanged, so a second run sends
    what is missing and costs little for the rest. A batch that is refused is sent again one by
    one, so that a bad document is named and stops no other.
    """
    batch: list[dict[str, Any]] = []
    size = waiting = 0
    for name, file in files:
        for document in read_documents(name, file):
            if isinstance(document, UnreadableFile):
                report.fail(str(document), 1)
                continue
            length = len(json.dumps(document))
            if batch and (len(batch) == BATCH_DOCUMENTS or size + length > BATCH_BYTES):
                send(client, corpus, batch, report)
                yield waiting
                batch, size, waiting = [], 0, 0
            batch.append(document)
            size += length
        waiting += 1
    if batch:
        send(client, corpus, batch, report)
    yield waiting


def send(client: Client, corpus: str, batch: list[dict[str, Any]], report: Report) -> None:
    try:
        results = client.put(corpus, batch)
    except ClientError as error:
        if not error.is_refusal:
            raise
        if len(batch) == 1:
            report.fail(f"{batch[0].get('id')}: {error}", 1)
            return
        for document in batch:
            send(client, corpus, [document], report)
        return
    for result in results:
        report.counts[result["status"]] += 1
        if result["error"]:
            report.problems.append(f"{result['id']}: {result['error']}")
