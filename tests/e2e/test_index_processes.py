"""One index on a folder or an object store, shared by processes of which some are killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.index_process import CORPUS, found, open_place, version
from tests.object_storage import object_storage

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

Place = tuple[str, dict[str, str]]


@pytest.fixture(params=["folder", "object storage"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield str(tmp_path), {}
        return
    with object_storage() as storage:
        yield storage.uri("index"), storage.options


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(processes: ExitStack, place: Place, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.index_process", json.dumps(place), *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    processes.enter_context(process)
    processes.callback(process.kill)
    return process


def ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    print(file=process.stdin, flush=True)
    return line_of(process)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> str:
    """Let a process come to its end by itself; return the rest of what it says."""
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return said


def texts(name: str, number: int) -> list[str]:
    return [f"word {name}{number}"] * (1 + number % 3)


async def test_every_reader_sees_each_acknowledged_write_at_its_next_search(
    place: Place, processes: ExitStack
) -> None:
    writer = start(processes, place, "step", "v")
    readers = [start(processes, place, "read") for _ in range(3)]

    for number in range(6):
        assert int(ask(writer)) == number
        for reader in readers:
            there = texts("v", number)
            assert json.loads(ask(reader)) == [there, there, 2 + number]

    for process in (writer, *readers):
        end(process)


async def test_a_killed_writer_loses_nothing_acknowledged_and_stops_nobody(
    place: Place, processes: ExitStack
) -> None:
    store = open_place(*place)
    await store.upsert(CORPUS, list(version("v", 0)))
    readers = [start(processes, place, "follow") for _ in range(2)]
    keeper = start(processes, place, "tend")
    moment = random.Random(0)

    last = 0
    for _ in range(3):
        writer = start(processes, place, "write", "v", str(last + 1))
        acknowledged = [line_of(writer) for _ in range(5)]
        time.sleep(moment.uniform(0, 0.2))  # somewhere in the middle of an upsert
        writer.kill()
        acknowledged += writer.communicate()[0].split()
        last = int(acknowledged[-1])
        by_text, by_vector, documents = await found(store)
        stored = int(by_text[0].removeprefix("word v"))
        # What was under way may be there too.
        assert stored in (last, last + 1)
        assert by_text == by_vector == texts("v", stored)
        assert documents == 2 + stored
        last = stored

    end(keeper)
    for reader in readers:
        seen = json.loads(end(reader))
        numbers = [int(one[0].removeprefix("word v")) for one in seen]
        assert numbers == sorted(numbers)
        assert seen == [texts("v", number) for number in numbers]  # never half a write
        assert len(seen) > 3


async def test_two_writers_of_the_same_document_leave_one_version_of_it(
    place: Place, processes: ExitStack
) -> None:
    writers = [start(processes, place, "write", name, "0", "10") for name in "ab"]
    for writer in writers:
        end(writer)

    store = open_place(*place)
    by_text, by_vector, documents = await found(store)
    assert documents == 1 + 20
    assert by_text == by_vector
    assert by_text in [texts("a", 9), texts("b", 9)]
    everything = [chunk.id for chunk in await store.fetch(CORPUS, "counter")]
    assert max(Counter(everything).values()) == 1
    size = await store.size(CORPUS)
    assert size.chunks == len(everything) + 20
