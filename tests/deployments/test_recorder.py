"""The Recorder as a plain object, on a real file."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from deployments.recorder import Recorder
from deployments.tracker_options import TrackerArgs
from pipeline.errors import InvalidInput, NotFound, Unavailable
from tests.records import record
from tracker.ids import new_retrieval_id
from tracker.records import PurgeCounts, Scope, Window
from tracker.retention import Policy, run_retention
from tracker.store import TrackerStore


def store_of(recorder: Recorder) -> TrackerStore:
    assert recorder.file.store is not None
    return recorder.file.store


async def test_records_are_stored_once_even_if_sent_twice(recorder: Recorder) -> None:
    one = record("a", "b")
    await asyncio.gather(recorder.record([one]), recorder.record([one]))
    await recorder.record([one])
    status = await recorder.status()
    assert (status["retrievals"], status["hits"]) == (1, 2)


async def test_feedback_for_a_known_document_is_stored_and_a_repeat_replaces(
    recorder: Recorder,
) -> None:
    one = record("a")
    await recorder.record([one])
    await recorder.feedback("default", one.retrieval_id, "a", "relevant")
    await recorder.feedback("default", one.retrieval_id, "a", "not_relevant")
    stored = store_of(recorder).get_record("default", one.retrieval_id)
    assert [f.outcome for f in stored.feedback] == ["not_relevant"]


async def test_a_retrieval_that_was_just_made_is_waited_for_and_another_tenants_is_not_found(
    recorder: Recorder,
) -> None:
    one = record("a", "dropped")
    early = asyncio.create_task(recorder.retrieval("default", one.retrieval_id))
    await asyncio.sleep(0.2)
    await recorder.record([one])
    assert (await early).record == one
    with pytest.raises(NotFound):
        await recorder.retrieval("another", one.retrieval_id)
    with pytest.raises(NotFound):
        await recorder.retrieval("default", "no id at all\0")


async def test_retrievals_are_listed_without_their_hits_from_the_last_one_on(
    recorder: Recorder,
) -> None:
    records = [record("a") for _ in range(3)]
    await recorder.record(records)
    newest, *_ = await recorder.retrievals(Window("default"), 2, None)
    assert newest == replace(records[2], hits=())
    after = (newest.retrieved_at, newest.retrieval_id)
    rest = await recorder.retrievals(Window("default"), 9, after)
    assert [one.retrieval_id for one in rest] == [records[n].retrieval_id for n in (1, 0)]


async def test_feedback_that_overtakes_its_record_waits_for_it(recorder: Recorder) -> None:
    one = record("a")
    early = asyncio.create_task(recorder.feedback("default", one.retrieval_id, "a", "relevant"))
    await asyncio.sleep(0.2)
    await recorder.record([one])
    await early
    assert (await recorder.status())["feedback"] == 1


async def test_feedback_for_what_is_unknown_is_not_found(recorder: Recorder) -> None:
    one = record("a", at=datetime.now(timezone.utc))
    await recorder.record([one])
    with pytest.raises(NotFound):
        await recorder.feedback("default", "no-such-id", "a", "relevant")
    with pytest.raises(NotFound):
        await recorder.feedback("default", one.retrieval_id, "z", "relevant")
    with pytest.raises(NotFound):
        await recorder.feedback("default", new_retrieval_id(), "a", "relevant")


async def test_a_purge_deletes_what_is_older_and_leaves_no_orphan(recorder: Recorder) -> None:
    now = datetime.now(timezone.utc)
    old, new = record("a", "b", at=now - timedelta(days=10)), record("c", at=now)
    await recorder.record([old, new])
    await recorder.feedback("default", old.retrieval_id, "a", "relevant")
    cutoff = now - timedelta(days=1)
    assert await recorder.purge(cutoff, dry_run=True) == PurgeCounts(1, 2, 1)
    assert await recorder.purge(cutoff) == PurgeCounts(1, 2, 1)
    assert await recorder.purge(cutoff) == PurgeCounts()
    assert store_of(recorder).orphans() == 0
    kept = store_of(recorder).find_records(Window("default"), 10, 0)
    assert [r.retrieval_id for r in kept] == [new.retrieval_id]


async def test_a_purge_of_the_future_is_refused(recorder: Recorder) -> None:
    with pytest.raises(InvalidInput):
        await recorder.purge(datetime.now(timezone.utc) + timedelta(hours=1))


async def test_shutdown_flushes_what_waits(tmp_path: Path) -> None:
    args = TrackerArgs(path=str(tmp_path / "tracker.duckdb"))
    first = Recorder(args)
    waiting = asyncio.create_task(first.record([record("a")]))
    await asyncio.sleep(0)
    await first.close()
    assert await waiting == []
    second = Recorder(args)
    assert await second.ping()
    assert (await second.status())["retrievals"] == 1
    await second.close()


async def test_a_record_that_cannot_be_stored_is_rejected_and_holds_up_no_other(
    recorder: Recorder,
) -> None:
    good, bad = record("a"), replace(record("b"), query="\ud800")
    refused, stored = await asyncio.gather(recorder.record([bad]), recorder.record([good]))
    assert (refused, stored) == ([bad.retrieval_id], [])
    assert await recorder.record([record("c")]) == []
    status = await recorder.status()
    assert (status["retrievals"], status["rejected"]) == (2, 1)


async def test_a_purge_that_raises_is_shown_and_does_not_end_the_schedule(
    recorder: Recorder,
) -> None:
    waits: list[float] = []

    async def purge(cutoff: datetime, scope: Scope) -> int:
        if len(waits) < 3:
            raise RuntimeError("boom")
        return (await recorder.purge(cutoff, False, scope)).retrievals

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        shown.append((await recorder.status())["retention"]["last_error"])
        if len(waits) == 4:
            raise asyncio.CancelledError

    shown: list[str | None] = []
    with pytest.raises(asyncio.CancelledError):
        await run_retention(
            purge,
            recorder.record_run,
            policies=[Policy(1)],
            interval_hours=24,
            jitter=lambda: 0.0,
            sleep=sleep,
        )
    assert waits == [0.0, 60, 300, 86_400]
    assert shown == [None, "RuntimeError: boom", "RuntimeError: boom", None]


async def test_a_tracker_that_cannot_open_is_down_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    owner = Recorder(TrackerArgs(path=str(tmp_path / "file" / "tracker.duckdb")))
    with pytest.raises(Unavailable, match="the tracker is down"):
        await owner.record([record("a")])
    with pytest.raises(Unavailable):
        await owner.ping()
    status = await owner.status()
    assert status["error"] == "the tracker's file cannot be used: File exists"
    await owner.close()


async def test_a_recorder_waits_for_the_file_that_its_predecessor_still_holds(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tracker.duckdb"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    owner = Recorder(TrackerArgs(path=str(path)))
    waiting = asyncio.create_task(owner.record([record("a")]))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    holder.communicate()
    assert await waiting == []
    await owner.close()


HOLD = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


async def test_what_is_being_committed_when_the_recorder_closes_is_stored_and_answered(
    tmp_path: Path,
) -> None:
    owner = Recorder(TrackerArgs(path=str(tmp_path / "tracker.duckdb")))
    await owner.ping()
    held = threading.Event()
    busy = asyncio.get_running_loop().run_in_executor(owner.file.writer, held.wait, 30)
    sent = asyncio.create_task(owner.record([record("a", retrieval_id="r1")]))
    await asyncio.sleep(0)  # it waits for its group
    while owner.records.waiting:  # until it is taken in hand, behind the busy writer
        await asyncio.sleep(0.01)
    closing = asyncio.create_task(owner.close())
    await asyncio.sleep(0)
    held.set()
    await busy
    await closing
    assert await asyncio.wait_for(sent, 5) == []
    store = TrackerStore.open(tmp_path / "tracker.duckdb", memory_limit="256MB", threads=1)
    assert store.counts().retrievals == 1
    store.close()
