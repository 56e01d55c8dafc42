"""Retrievals to fill a store with, what it then holds, and the types of its fixtures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from subprocess import Popen
from typing import Protocol

from tests.records import record
from tracker.records import RetrievalRecord, Window
from tracker.store import TrackerStore

OpenStore = Callable[[], TrackerStore]
StartOwner = Callable[..., "Popen[str]"]
RunOwner = Callable[..., str]
Hold = Callable[[Path], int]

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
LATER = datetime(2026, 3, 2, tzinfo=timezone.utc)
ALL = Window("acme")  # the tenant of whatever names no other


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def make_record(
    retrieval_id: str,
    after: float = 0,
    documents: tuple[str, ...] = ("guide",),
    tenant: str = "acme",
    corpus: str = "docs",
) -> RetrievalRecord:
    """A retrieval made some minutes after noon."""
    return record(
        *documents,
        retrieval_id=retrieval_id,
        at=minute(after),
        tenant=tenant,
        corpus=corpus,
        query=f"query of {retrieval_id}",
    )


class Finds(Protocol):
    def find_records(
        self, window: Window, limit: int = ..., offset: int = ...
    ) -> list[RetrievalRecord]: ...


def retrieval_ids(store: Finds, window: Window = ALL, **page: int) -> list[str]:
    """The ids of what `find_records` answers with the same arguments."""
    return [one.retrieval_id for one in store.find_records(window, **page)]
