"""Stores in temporary folders, and second processes to share a file with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracker.stores import Hold, OpenStore, RunOwner, StartOwner
from tracker.store import TrackerStore

ROOT = Path(__file__).parents[2]

OWNER = """
import os, sys
from dataclasses import replace
from datetime import timedelta
from tests.tracker.stores import NOON, make_record
from tracker.records import Feedback, Window
from tracker.store import TrackerStore

store = TrackerStore.open(sys.argv[1], memory_limit="256MB", threads=1)

def record(number, query="a query that is easily found"):
    store.record([replace(make_record(f"r{number}", number), query=query)])

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
def hold(start_owner: StartOwner) -> Hold:
    """Let another process own the file, with a retrieval in it; return that process's id."""

    def start(path: Path) -> int:
        owner = start_owner("record(1); say('ready'); sys.stdin.read()", path)
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        return owner.pid

    return start
