"""Stores in temporary folders, literal records, and second processes to share a file with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tracker.records import HitRecord, RetrievalRecord
from tracker.store import TrackerStore

ROOT = Path(__file__).parents[2]
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

OpenStore = Callable[[], TrackerStore]
MakeRecord = Callable[..., RetrievalRecord]
StartOwner = Callable[..., "subprocess.Popen[str]"]
RunOwner = Callable[..., str]

OWNER = """
import os, sys
from datetime import datetime, timedelta, timezone
from tracker.records import Feedback, HitRecord, RetrievalRecord, Window
from tracker.store import TrackerStore

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
store = TrackerStore.open(sys.argv[1], memory_limit="256MB", threads=1)

def record(number, query="a query that is easily found"):
    hit = HitRecord("guide#0", "guide", 0, 1, 1, 0.6, 0.03, 3.1, 0.957, "correct", True, True)
    store.record([RetrievalRecord(
        f"r{number}", "acme", "docs", query, NOON + timedelta(minutes=number), "correct", 0, True,
        (), 1, 0, 0, 0, "minilm@1f3c", {"total": 1.5}, (hit,))])

def say(text):
    print(text, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tracker.duckdb"


@pytest.fixture
def open_store(path: Path) -> Iterator[OpenStore]:
    """Open the one file of the test; whatever is still open at its end is closed."""
    stores: list[TrackerStore] = []

    def open_one() -> TrackerStore:
        stores.append(TrackerStore.open(path, memory_limit="256MB", threads=1))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> TrackerStore:
    return open_store()


@pytest.fixture
def make_record() -> MakeRecord:
    """Build a retrieval made some minutes after noon, with one hit for each document named; a
    document whose name starts with "dropped" was a candidate only."""

    def make(
        retrieval_id: str,
        minute: float = 0,
        documents: tuple[str, ...] = ("guide",),
        tenant: str = "acme",
        corpus: str = "docs",
    ) -> RetrievalRecord:
        return RetrievalRecord(
            retrieval_id=retrieval_id,
            tenant=tenant,
            corpus=corpus,
            query=f"query of {retrieval_id}",
            retrieved_at=NOON + timedelta(minutes=minute),
            verdict="correct",
            corrections=0,
            rerank_applied=True,
            degraded=("leg:dense",),
            forward_passes=2,
            reused_scores=1,
            cached_scores=0,
            shared_scores=0,
            model="minilm@1f3c",
            timings_ms={"retrieve": 9.8, "total": 828.1},
            hits=tuple(make_hit(document, at) for at, document in enumerate(documents, 1)),
        )

    return make


def make_hit(document: str, place: int) -> HitRecord:
    dropped = document.startswith("dropped")
    return HitRecord(
        hit_id=f"{document}#0",
        document_id=document,
        chunk_index=0,
        rank=None if dropped else place,
        retrieval_rank=place,
        retrieval_score=0.61,
        fusion_score=0.0325,
        logit=None if dropped else 3.1,
        relevance=None if dropped else 0.957,
        grade="incorrect" if dropped else "correct",
        scored=not dropped,
        returned=not dropped,
    )


@pytest.fixture
def start_owner() -> Iterator[StartOwner]:
    """Start a process that opens the file and runs a script with `store`, `record` and `say`;
    whatever still runs at the end of the test is killed."""
    processes: list[subprocess.Popen[str]] = []

    def start(script: str, path: Path, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER + script, str(path)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def run_owner(start_owner: StartOwner) -> RunOwner:
    """Run such a script to its end, which is to come without an error; return what it said."""

    def run(script: str, path: Path, **environment: str) -> str:
        output, errors = start_owner(script, path, **environment).communicate()
        assert errors == ""
        return output

    return run


@pytest.fixture
def hold(start_owner: StartOwner) -> Callable[[Path], int]:
    """Let another process own the file, with a retrieval in it; return that process's id."""

    def start(path: Path) -> int:
        owner = start_owner("record(1); say('ready'); sys.stdin.read()", path)
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        return owner.pid

    return start
