"""The tracker's owner dies again and again: what it acknowledged stays, nothing is orphaned."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
from ray import serve
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

from deployments.app import build
from deployments.config import AppArgs, IndexArgs
from deployments.tracker_options import RetentionArgs, TrackerArgs
from tests.e2e.test_variants import put, replicas, search, wait_until
from tests.tracker.stores import ALL
from tracker.store import TrackerStore

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Acknowledged judgements, over all of the owner's lives.
FEEDBACK = int(os.environ.get("ONEPASS_KILLED_FEEDBACK", "3000"))
LIVES = 4
NAME = "killed"

OWNER = """
import asyncio, random, sys
from datetime import timedelta
from deployments.tracker_options import TrackerArgs
from deployments.recorder import Recorder, utc_now
from tests.records import record

life = sys.argv[2]

async def judge(recorder, number):
    one = record("a", "b", retrieval_id=f"r{life}-{number}", tenant="acme")
    await recorder.record([one])
    await recorder.feedback("acme", one.retrieval_id, "a", "relevant")
    print(one.retrieval_id, flush=True)

async def main():
    recorder = Recorder(TrackerArgs(path=sys.argv[1]))
    number = 0
    while True:
        await asyncio.gather(*(judge(recorder, number + n) for n in range(200)))
        number += 200
"""

PURGER = """
import asyncio, sys
from datetime import timedelta
from deployments.tracker_options import TrackerArgs
from deployments.recorder import Recorder, utc_now
from tests.records import record

life = sys.argv[2]

async def write(recorder):
    for number in range(1_000_000):
        age = timedelta(days=number % 10, seconds=number)
        one = record("a", "b", "c", retrieval_id=f"r{life}-{number}", tenant="acme")
        old = record("a", "b", retrieval_id=f"o{life}-{number}", at=utc_now() - age, tenant="acme")
        await recorder.record([old] * 2 + [one])
        await asyncio.gather(
            recorder.feedback("acme", one.retrieval_id, "a", "relevant"),
            recorder.feedback("acme", old.retrieval_id, "a", "relevant"),
            return_exceptions=True,  # it may be purged by now
        )
        print(one.retrieval_id, flush=True)

async def main():
    recorder = Recorder(TrackerArgs(path=sys.argv[1]))
    writers = [asyncio.create_task(write(recorder))]
    while True:
        await recorder.purge(utc_now() - timedelta(minutes=1))
"""
RUN = "\nasyncio.run(main())\n"


def live(script: str, path: Path, life: int, acknowledgements: int) -> list[str]:
    """Run an owner until it has acknowledged so many, and kill it a moment later; return all
    that it acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-c", script + RUN, str(path), str(life)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        try:
            said = [owner.stdout.readline().strip() for _ in range(acknowledgements)]
        finally:
            owner.send_signal(signal.SIGKILL)
        said += owner.stdout.read().split()
    assert "" not in said
    return said


def test_kills_lose_no_acknowledged_feedback(tmp_path: Path) -> None:
    path = tmp_path / "tracker.duckdb"
    acknowledged: list[str] = []
    for life in range(LIVES):
        acknowledged += live(OWNER, path, life, FEEDBACK // LIVES)
    store = TrackerStore.open(path, memory_limit="256MB", threads=1)
    kept = {one.retrieval_id for one in store.find_feedback(ALL, limit=10_000_000)}
    assert len(acknowledged) == len(set(acknowledged)) >= FEEDBACK // LIVES * LIVES
    assert set(acknowledged) - kept == set()
    assert store.orphans() == 0
    assert store.damages() == []
    store.close()


def test_kills_during_purges_leave_no_orphan_and_keep_what_is_young(tmp_path: Path) -> None:
    path = tmp_path / "tracker.duckdb"
    acknowledged: list[str] = []
    for life in range(5):
        acknowledged += live(PURGER, path, life, random.randrange(3, 12))
        store = TrackerStore.open(path, memory_limit="256MB", threads=1)
        assert store.orphans() == 0
        kept = {one.retrieval_id for one in store.find_feedback(ALL, limit=10_000_000)}
        assert set(acknowledged) - kept == set()
        assert store.damages() == []
        store.close()


@pytest.fixture(scope="module")
def args(tmp_path_factory: pytest.TempPathFactory) -> AppArgs:
    folder = tmp_path_factory.mktemp("killed")
    return AppArgs(
        scorer=None,
        embedder=None,
        index=IndexArgs(uri=str(folder / "index")),
        tracker=TrackerArgs(
            path=str(folder / "tracker.duckdb"),
            start_jitter_s=0.0,
            retention=[RetentionArgs(corpus="wiki", days=1.0)],
        ),
    )


@pytest.fixture(scope="module")
def http(cluster: int, args: AppArgs) -> Iterator[httpx.Client]:
    serve.run(build(args), name=NAME)
    with httpx.Client(base_url=f"http://127.0.0.1:{cluster}", timeout=30) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200)
        put(client, {"id": "a", "text": "A basalt column."})
        yield client
    serve.delete(NAME)


def judge(http: httpx.Client, retrieval_id: str) -> bool:
    body = {"retrieval_id": retrieval_id, "document_id": "a", "outcome": "relevant"}
    return http.post("/v1/feedback", json=body).status_code == 200


def judged(http: httpx.Client, retrieval_id: str) -> bool:
    found = http.get(f"/v1/retrievals/{retrieval_id}")
    return found.status_code == 200 and len(found.json()["feedback"]) == 1


def recorder_pid(http: httpx.Client) -> int:
    (recorder,) = replicas(http, "Recorder")
    pid: int = recorder["pid"]
    return pid


def test_feedback_that_was_answered_outlives_its_recorder(http: httpx.Client) -> None:
    answered: list[str] = []
    for number in range(60):
        if number in (20, 40):
            os.kill(recorder_pid(http), signal.SIGKILL)
        retrieval_id = search(http, "basalt").json()["retrieval_id"]
        if judge(http, retrieval_id):  # within milliseconds of its search
            answered.append(retrieval_id)
    assert len(answered) >= 20
    wait_until(lambda: judged(http, answered[-1]), 60)
    assert [one for one in answered if not judged(http, one)] == []


def test_a_redeploy_keeps_what_waits_and_one_retention(http: httpx.Client, args: AppArgs) -> None:
    wait_until(lambda: len(retention_actors()) == 1)
    before = recorder_pid(http)
    searched = [search(http, "basalt").json()["retrieval_id"] for _ in range(20)]
    tracker = args.tracker.model_copy(update={"interval_hours": 12.0})
    serve.run(build(args.model_copy(update={"tracker": tracker})), name=NAME)
    wait_until(lambda: replicas(http, "Recorder") and recorder_pid(http) != before, 60)
    wait_until(lambda: len(retention_actors()) == 1, 60)
    for retrieval_id in searched:
        assert http.get(f"/v1/retrievals/{retrieval_id}").status_code == 200
    wait_until(lambda: http.get("/v1/status").json()["retention"]["last_success"], 60)


def test_there_is_one_retention_after_its_own_death_and_the_controllers(
    http: httpx.Client,
) -> None:
    wait_until(lambda: len(retention_actors()) == 1)
    last = http.get("/v1/status").json()["retention"]["last_run"]
    for actor in retention_actors():
        ray.kill(actor, no_restart=False)
    controller = ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
    ray.kill(controller, no_restart=False)
    wait_until(lambda: http.get("/v1/status").json()["retention"]["last_run"] > last, 60)
    wait_until(lambda: len(retention_actors()) == 1, 60)
    assert search(http, "basalt").status_code == 200


def retention_actors() -> list[Any]:
    named = ray.util.list_named_actors(all_namespaces=True)
    mark = f"SERVE_DEPLOYMENT_ACTOR::{NAME}"
    return [
        ray.get_actor(one["name"], namespace=one["namespace"])
        for one in named
        if one["name"].startswith(mark)
    ]


def test_compacting_over_http_changes_no_answer(http: httpx.Client) -> None:
    retrieval_id = search(http, "basalt").json()["retrieval_id"]
    wait_until(lambda: judge(http, retrieval_id))
    sizes = http.post("/v1/admin/compact", json={})
    assert sizes.status_code == 200, sizes.text
    assert set(sizes.json()) == {"bytes_before", "bytes_after"}
    assert judged(http, retrieval_id)
    assert http.get("/v1/status").json()["tracker"]["error"] is None
