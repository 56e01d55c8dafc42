"""The Recorder under purges, compactions, damage and a full disk."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from deployments.outbox import Outbox
from deployments.recorder import Recorder
from deployments.tracker_options import TrackerArgs
from pipeline.errors import NotFound, Unavailable
from tests.records import record
from tracker.records import PurgeCounts, RetrievalRecord, Scope, Window
from tracker.store import TrackerStore


def store_of(recorder: Recorder) -> TrackerStore:
    assert recorder.file.store is not None
    return recorder.file.store


async def test_feedback_that_races_a_purge_is_kept_with_its_retrieval_or_not_found(
    recorder: Recorder,
) -> None:
    now = datetime.now(timezone.utc)
    old = [record("a", at=now - timedelta(days=10)) for _ in range(600)]
    await recorder.record(old)

    async def judge(one: RetrievalRecord) -> str:
        try:
            await recorder.feedback("default", one.retrieval_id, "a", "relevant")
        except NotFound:
            return "gone"
        return "kept"

    first = [judge(one) for one in old[-100:]]
    _, *answers = await asyncio.gather(recorder.purge(now - timedelta(days=1)), *first)
    assert set(answers) <= {"kept", "gone"}
    status = await recorder.status()
    assert (status["retrievals"], status["hits"], status["feedback"]) == (0, 0, 0)
    assert store_of(recorder).orphans() == 0


async def test_records_that_are_sent_again_in_part_are_there_once(
    recorder: Recorder,
) -> None:
    records = [record("a", "b") for _ in range(20)]
    half = records[:10]
    await asyncio.gather(
        recorder.record(records), recorder.record(half), recorder.record(list(reversed(records)))
    )
    await recorder.record(half)
    status = await recorder.status()
    assert (status["retrievals"], status["hits"], status["feedback"]) == (20, 40, 0)
    assert status["recorded"] == 20


async def test_a_policys_purge_takes_its_scope_alone(recorder: Recorder) -> None:
    now = datetime.now(timezone.utc)
    old = now - timedelta(days=10)
    records = [record("a", at=old, tenant=name) for name in ("acme", "other")]
    await recorder.record(records)
    cutoff = now - timedelta(days=1)
    assert await recorder.purge(cutoff, True, Scope("acme")) == PurgeCounts(1, 1)
    assert await recorder.purge(cutoff, False, Scope(but=(("other", None),))) == PurgeCounts(1, 1)
    assert len(store_of(recorder).find_records(Window("other"))) == 1


async def test_reads_and_writes_go_on_while_the_file_is_written_anew(recorder: Recorder) -> None:
    await recorder.record([record("a", tenant="acme") for _ in range(500)])
    done = asyncio.Event()
    written: list[str] = []
    read: list[int] = []

    async def write() -> None:
        while not done.is_set():
            one = record("a", "b", tenant="acme")
            await recorder.record([one])
            await recorder.feedback("acme", one.retrieval_id, "b", "relevant")
            written.append(one.retrieval_id)

    async def reads() -> None:
        while not done.is_set():
            read.append(len(await recorder.retrievals(Window("acme"), 10_000, None)))

    tasks = [asyncio.create_task(one()) for one in (write, reads)]
    first, second = await asyncio.gather(recorder.compact(), recorder.compact())
    assert first == second  # who asks meanwhile waits for the same one
    purged = await recorder.purge(datetime.now(timezone.utc) - timedelta(days=1))
    assert purged == PurgeCounts()
    await recorder.compact()
    done.set()
    await asyncio.gather(*tasks)
    assert read == sorted(read)
    kept = store_of(recorder).find_feedback(Window("acme"), 10_000)
    assert {one.retrieval_id for one in kept} == set(written)
    assert store_of(recorder).counts().retrievals == 500 + len(written)


async def test_a_report_that_goes_on_keeps_the_old_file(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.tracker_file.QUIET_WAIT_S", 0.05)
    await recorder.record([record("a", tenant="acme")])
    ended = threading.Event()
    report = asyncio.create_task(recorder.file.report(lambda store: ended.wait(30)))
    await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="a report is being read") as refused:
        await recorder.compact()
    assert refused.value.retry_after_s == 30
    assert len(await recorder.retrievals(Window("acme"), 10, None)) == 1
    ended.set()
    assert await report
    await recorder.compact()
    assert len(await recorder.retrievals(Window("acme"), 10, None)) == 1


async def test_damage_is_shown_with_what_may_be_lost(tmp_path: Path) -> None:
    path = tmp_path / "tracker.duckdb"
    subprocess.run([sys.executable, "-c", LOSE, str(path)], check=True)
    owner = Recorder(TrackerArgs(path=str(path)))
    await owner.ping()
    status = await owner.status()
    assert (status["retrievals"], status["possibly_lost"]) == (1, 2)
    assert [name.rsplit(".", 2)[0] for name in status["set_aside"]] == ["tracker.duckdb.wal"]
    await owner.close()


LOSE = """
import os, sys
from pathlib import Path
from tests.records import record
from tracker.store import TrackerStore
store = TrackerStore.open(sys.argv[1], memory_limit="256MB", threads=1)
store.record([record("a", query="kept")])
store.checkpoint()
for _ in range(2):
    store.record([record("a", query="easily found")])
log = Path(sys.argv[1] + ".wal")
content = bytearray(log.read_bytes())
at = content.index(b"easily found")
content[at : at + 64] = b"\\xff" * 64
log.write_bytes(content)
os._exit(0)
"""


async def test_the_configured_memory_and_threads_are_duckdbs(tmp_path: Path) -> None:
    args = TrackerArgs(path=str(tmp_path / "t.duckdb"), memory_limit="300MB", threads=2)
    owner = Recorder(args)
    await owner.ping()
    with store_of(owner)._database.session() as cursor:
        settings = cursor.execute(
            "SELECT current_setting('memory_limit'), current_setting('threads')"
        ).fetchone()
    assert settings == ("286.1 MiB", 2)
    await owner.close()


def test_a_full_disk_is_answered_and_ends_nothing(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "tracker.duckdb")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split("\n")[:-1] == [
        "record: the tracker is down",
        "feedback: the tracker is down",
        "reads: 1",
        "after: 2 retrievals, 1 feedback, set aside []",
    ]


FULL_DISK = """
import asyncio, random, resource, signal, sys
from dataclasses import replace
from deployments.tracker_options import TrackerArgs
from deployments.outbox import Outbox
from deployments.recorder import Recorder
from pipeline.errors import Unavailable
from tests.records import record
from tracker.records import Window

def limit(size):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size if size else hard, hard))

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    recorder = Recorder(TrackerArgs(path=sys.argv[1]))
    kept = record("a")
    await recorder.record([kept])
    limit(1)
    try:
        await recorder.record([replace(record("b"), query=random.Random(7).randbytes(99).hex())])
    except Unavailable as error:
        print("record:", error)
    try:
        await recorder.feedback("default", kept.retrieval_id, "a", "relevant")
    except Unavailable as error:
        print("feedback:", error)
    print("reads:", len(await recorder.retrievals(Window("default"), 10, None)))
    limit(None)
    await recorder.record([record("c")])
    await recorder.feedback("default", kept.retrieval_id, "a", "relevant")
    status = await recorder.status()
    counts = f"{status['retrievals']} retrievals, {status['feedback']} feedback"
    print("after:", counts + ", set aside", status["set_aside"])
    await recorder.close()

asyncio.run(main())
"""


async def test_one_judgement_sent_400_times_at_once_is_accepted_400_times_and_stored_once(
    recorder: Recorder,
) -> None:
    one = record("a")
    await recorder.record([one])
    answers = await asyncio.gather(
        *(recorder.feedback("default", one.retrieval_id, "a", "relevant") for _ in range(400))
    )
    assert answers == [None] * 400
    assert (await recorder.status())["feedback"] == 1


async def test_feedback_right_after_a_search_finds_it_whichever_composer_recorded_it(
    recorder: Recorder,
) -> None:
    composers = [Outbox(recorder.record, 1000) for _ in range(2)]
    for outbox in composers:
        outbox.start()

    async def search_and_judge(number: int) -> None:
        one = record("a")
        composers[number % 2].put(one)
        await recorder.feedback("default", one.retrieval_id, "a", "relevant")

    await asyncio.gather(*(search_and_judge(number) for number in range(40)))
    assert (await recorder.status())["feedback"] == 40
    for outbox in composers:
        await outbox.close(1)
