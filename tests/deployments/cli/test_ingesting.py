from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from deployments.cli.client import Client, ClientError
from deployments.cli.ingesting import (
    BATCH_BYTES,
    BATCH_DOCUMENTS,
    MAX_FAILED_BATCHES,
    Report,
    TooManyFailures,
    ingest,
)
from deployments.cli.pieces import Piece


class FakeServer(Client):
    """Stores documents in a dictionary; refuses a batch with a bad one, as the API does."""

    def __init__(self) -> None:
        self.stored: dict[str, Mapping[str, Any]] = {}
        self.batches: list[list[str]] = []

    def put(self, corpus: str, documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.batches.append([document["id"] for document in documents])
        if any(document["text"] == "bad" for document in documents):
            raise ClientError("422 documents[0].text: no", 422)
        if any(document["text"] == "down" for document in documents):
            raise ClientError("503 Indexer failed", 503)
        return [self.store(document) for document in documents]

    def store(self, document: Mapping[str, Any]) -> dict[str, Any]:
        if document["text"] == "ill":
            return {"id": document["id"], "status": "failed", "chunks": None, "error": "no"}
        status = "unchanged" if self.stored.get(document["id"]) == document else "stored"
        self.stored[document["id"]] = document
        return {"id": document["id"], "status": status, "chunks": 1, "error": None}


class Ingest:
    """One run over texts, each a document of ten bytes that is named by its place."""

    def __init__(self, server: FakeServer | None = None) -> None:
        self.server = server or FakeServer()
        self.told: list[str] = []
        self.report = Report(self.told.append)

    def run(self, *pieces: str | Piece) -> list[int]:
        given = (
            Piece(10, {"id": f"{number:03d}", "text": one}) if isinstance(one, str) else one
            for number, one in enumerate(pieces)
        )
        return list(ingest(self.server, "c", given, self.report))


def test_documents_go_in_batches_and_every_byte_is_counted_as_progress() -> None:
    run = Ingest()
    assert run.run(*["text"] * (BATCH_DOCUMENTS + 5), Piece(7)) == [640, 57]
    assert [len(batch) for batch in run.server.batches] == [BATCH_DOCUMENTS, 5]
    assert str(run.report) == f"{BATCH_DOCUMENTS + 5} stored"


def test_a_batch_is_bounded_in_bytes_and_a_larger_document_goes_alone() -> None:
    run = Ingest()
    run.run("x" * (BATCH_BYTES // 2), "y" * (BATCH_BYTES // 2), "z" * (2 * BATCH_BYTES), "a", "b")
    assert run.server.batches == [["000"], ["001"], ["002"], ["003", "004"]]


def test_only_one_batch_is_read_ahead() -> None:
    read = 0

    def pieces() -> Iterator[Piece]:
        nonlocal read
        for read in range(1, 1_000_001):
            yield Piece(1, {"id": str(read), "text": "t"})

    progress = ingest(FakeServer(), "c", pieces(), Report(print))
    next(progress)
    next(progress)
    assert read == 2 * BATCH_DOCUMENTS + 1


def test_of_two_documents_with_one_id_the_later_replaces() -> None:
    run = Ingest()
    run.run(*(Piece(1, {"id": name, "text": text}) for name, text in ("ax", "by", "az", "cx")))
    assert run.server.batches == [["a", "b"], ["a", "c"]]
    assert run.server.stored["a"]["text"] == "z"


def test_a_second_run_finds_everything_unchanged() -> None:
    first = Ingest()
    first.run("a", "b")
    second = Ingest(first.server)
    second.run("a", "c")
    assert str(second.report) == "1 stored, 1 unchanged"


def test_a_bad_document_is_named_and_stops_no_other() -> None:
    run = Ingest()
    run.run("a", "bad", "b")
    assert sorted(run.server.stored) == ["000", "002"]
    assert run.report.counts == {"stored": 2, "failed": 1}
    assert run.told == ["001: 422 documents[0].text: no"]


def test_a_document_that_the_server_could_not_store_is_named() -> None:
    run = Ingest()
    run.run("a", "ill", "b")
    assert run.report.counts == {"stored": 2, "failed": 1}
    assert run.told == ["001: no"]


def test_a_server_that_is_down_stops_the_run() -> None:
    with pytest.raises(ClientError, match="503"):
        Ingest().run("a", "down")


def test_a_server_that_stores_nothing_any_more_stops_the_run() -> None:
    run = Ingest()
    with pytest.raises(TooManyFailures):
        run.run(*["ill"] * (BATCH_DOCUMENTS * (MAX_FAILED_BATCHES + 1)))
    assert len(run.server.batches) == MAX_FAILED_BATCHES
    again = Ingest()
    again.run(*(["ill"] * BATCH_DOCUMENTS + ["a"] * BATCH_DOCUMENTS) * (MAX_FAILED_BATCHES + 1))
    assert again.report.counts["stored"] == BATCH_DOCUMENTS * (MAX_FAILED_BATCHES + 1)


def test_what_cannot_be_read_is_told_and_the_rest_is_sent() -> None:
    run = Ingest()
    assert run.run("a", Piece(5, problem="f.md: it is not UTF-8"), "b") == [25]
    assert sorted(run.server.stored) == ["000", "002"]
    assert run.told == ["f.md: it is not UTF-8"]
    assert str(run.report) == "1 failed, 2 stored"


def test_nothing_to_read_is_no_request() -> None:
    run = Ingest()
    assert run.run(Piece(3)) == [3]
    assert run.server.batches == []
    assert str(run.report) == "nothing to ingest"
