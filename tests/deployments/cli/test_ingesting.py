from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from deployments.cli.client import Client, ClientError
from deployments.cli.ingesting import BATCH_DOCUMENTS, Report, ingest_files


class FakeServer(Client):
    """Stores documents in a dictionary; refuses a batch with a bad one, as the API does."""

    def __init__(self) -> None:
        self.stored: dict[str, Mapping[str, Any]] = {}
        self.batches: list[int] = []

    def put(self, corpus: str, documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.batches.append(len(documents))
        if any(document["text"] == "bad" for document in documents):
            raise ClientError("422 documents[0].text: no", 422)
        if any(document["text"] == "down" for document in documents):
            raise ClientError("503 Indexer failed", 503)
        return [self.store(document) for document in documents]

    def store(self, document: Mapping[str, Any]) -> dict[str, Any]:
        status = "unchanged" if self.stored.get(document["id"]) == document else "stored"
        self.stored[document["id"]] = document
        return {"id": document["id"], "status": status, "chunks": 1, "error": None}


def files(folder: Path, *texts: str) -> list[tuple[str, Path]]:
    named = []
    for number, text in enumerate(texts):
        file = folder / f"{number:03d}.txt"
        file.write_text(text)
        named.append((file.name, file))
    return named


def test_documents_go_in_batches_and_every_file_is_counted_as_progress(tmp_path: Path) -> None:
    server, report = FakeServer(), Report()
    many = files(tmp_path, *["text"] * (BATCH_DOCUMENTS + 5))
    assert sum(ingest_files(server, "c", many, report)) == len(many)
    assert server.batches == [BATCH_DOCUMENTS, 5]
    assert report.counts == {"stored": len(many)}


def test_a_second_run_finds_everything_unchanged(tmp_path: Path) -> None:
    server = FakeServer()
    named = files(tmp_path, "a", "b")
    list(ingest_files(server, "c", named, Report()))
    report = Report()
    list(ingest_files(server, "c", named, report))
    assert report.counts == {"unchanged": 2}


def test_a_bad_document_is_named_and_stops_no_other(tmp_path: Path) -> None:
    server, report = FakeServer(), Report()
    list(ingest_files(server, "c", files(tmp_path, "a", "bad", "b"), report))
    assert sorted(server.stored) == ["000.txt", "002.txt"]
    assert report.counts == {"stored": 2, "failed": 1}
    assert report.problems == ["001.txt: 422 documents[0].text: no"]


def test_a_server_that_is_down_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="503"):
        list(ingest_files(FakeServer(), "c", files(tmp_path, "a", "down"), Report()))


def test_an_unreadable_file_is_reported_and_the_rest_is_sent(tmp_path: Path) -> None:
    server, report = FakeServer(), Report()
    named = files(tmp_path, "a", "b")
    named[0][1].write_bytes(b"\xff")
    list(ingest_files(server, "c", named, report))
    assert sorted(server.stored) == ["001.txt"]
    assert report.counts == {"failed": 1, "stored": 1}
