"""Reports over HTTP, from a Recorder on a real file."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from deployments.recorder import Recorder
from pipeline.documents import CorpusKey
from pipeline.errors import DeadlineExceeded
from tests.deployments.gateway import AT, RecordingGateway, error_of
from tests.tracker.searches import hit, searched
from tracker.records import RetrievalRecord, Window
from tracker.report_rows import ROWS, STATED

CORPUS = CorpusKey("default", "docs")


class ReportingGateway(RecordingGateway):
    """Has the Recorder answer reports."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.remaining_ms = 30_000.0

    async def report(
        self, name: str, window: Window, limit: int, offset: int
    ) -> list[dict[str, Any]]:
        self.note("report", name, window, limit, offset)
        return await self.recorder.report(name, window, limit, offset, self.remaining_ms)


@pytest.fixture
def gateway(recorder: Recorder) -> ReportingGateway:
    return ReportingGateway(recorder)


def asked(number: int, query: str, tenant: str = "default", **fields: Any) -> RetrievalRecord:
    return searched(
        f"{tenant}-{number}", hit("a", 1), query=query, at=number, tenant=tenant, **fields
    )


async def rows(client: httpx.AsyncClient, name: str, **query: str) -> list[dict[str, Any]]:
    response = await client.get(f"/v1/reports/{name}", params=query)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def test_a_report_is_rows_with_times_in_utc(
    client: httpx.AsyncClient, recorder: Recorder
) -> None:
    await recorder.record([asked(0, "Opening hours"), asked(1, "opening hours")])
    assert await rows(client, "query-frequency") == [
        {
            "corpus": "docs",
            "query": "opening hours",
            "searches": 2,
            "share": 1.0,
            "first_searched_at": "2026-03-01T12:00:00+00:00",
            "last_searched_at": "2026-03-01T12:01:00+00:00",
        }
    ]


@pytest.mark.parametrize("name", ROWS)
async def test_every_report_can_be_asked_for_and_may_be_empty(
    client: httpx.AsyncClient, name: str
) -> None:
    answer = (await client.get(f"/v1/reports/{name}")).json()
    assert answer == {"report": name, "items": [], "next": None}


@pytest.mark.parametrize("name", STATED)
async def test_a_row_has_the_columns_of_its_class(
    client: httpx.AsyncClient, recorder: Recorder, name: str
) -> None:
    at = AT - timedelta(days=60)
    await recorder.record_documents(CORPUS, [("a", None), ("b", None)], at)
    graded = [hit("a", 1, 0.25, grade="ambiguous"), hit("b", 2, 0.25)]
    timed = {"total": 1.0}
    found = [searched(f"r{n}", *graded, tenant="default", timings_ms=timed) for n in range(2)]
    other = searched("r2", *graded, tenant="default", query="another")
    await recorder.record([*found, other, searched("r3", tenant="default", query="nothing")])
    await recorder.record_documents(CORPUS, [("unseen", None)], at)
    await recorder.feedback("default", "r0", "a", "relevant")
    first, *_ = await rows(client, name)
    assert list(first) == [field.name for field in fields(ROWS[name])]


async def test_pages_lead_through_a_report_and_what_is_recorded_meanwhile_shifts_nothing(
    client: httpx.AsyncClient, recorder: Recorder
) -> None:
    await recorder.record([asked(n, f"query {n}") for n in range(3)])
    first = (await client.get("/v1/reports/query-frequency", params={"limit": "2"})).json()
    now = datetime.now(timezone.utc)
    late = searched("late", query="a query", tenant="default")
    await recorder.record([late_at(late, now + timedelta(seconds=n)) for n in range(1, 5)])
    page = {"limit": "2", "next": first["next"]}
    second = (await client.get("/v1/reports/query-frequency", params=page)).json()
    assert [row["query"] for row in first["items"]] == ["query 0", "query 1"]
    assert [row["query"] for row in second["items"]] == ["query 2"]
    assert second["next"] is None


def late_at(record: RetrievalRecord, at: datetime) -> RetrievalRecord:
    return replace(record, retrieval_id=f"late {at}", retrieved_at=at)


async def test_corpus_since_and_until_bound_a_report(
    client: httpx.AsyncClient, recorder: Recorder
) -> None:
    await recorder.record([asked(n, f"query {n}") for n in range(4)])
    await recorder.record([asked(9, "elsewhere", corpus="wiki")])
    window = {"since": "2026-03-01T12:01:00Z", "until": "2026-03-01T13:03:00+01:00"}
    found = await rows(client, "query-frequency", corpus="docs", **window)
    assert [row["query"] for row in found] == ["query 1", "query 2"]


async def test_a_tenant_sees_its_own_only(client: httpx.AsyncClient, recorder: Recorder) -> None:
    await recorder.record([asked(0, "mine"), asked(0, "not mine", tenant="another")])
    for name in STATED:
        assert "not mine" not in str(await rows(client, name))
    assert [row["query"] for row in await rows(client, "query-frequency")] == ["mine"]


async def test_an_unknown_report_is_404_and_names_those_there_are(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/v1/reports/no-such")
    assert error_of(response) == (404, "not_found", "name")
    assert response.json()["error"]["message"] == f"no such report; there are {', '.join(ROWS)}"


async def test_a_report_whose_time_is_up_is_504_and_what_comes_after_is_answered(
    client: httpx.AsyncClient, gateway: ReportingGateway
) -> None:
    gateway.remaining_ms = 0.0
    response = await client.get("/v1/reports/latency")
    assert error_of(response) == (504, "deadline_exceeded", None)
    gateway.remaining_ms = 30_000.0
    assert await rows(client, "latency") == []


async def test_pings_and_records_do_not_wait_for_a_report(recorder: Recorder) -> None:
    go_on = threading.Event()
    slow = asyncio.create_task(recorder.file.report(lambda store: go_on.wait()))
    waiting = asyncio.create_task(recorder.report("latency", Window("default"), 1, 0, 60_000))
    assert await recorder.ping()
    await recorder.record([asked(0, "q", timings_ms={"total": 1.0})])
    assert not waiting.done()
    go_on.set()
    await slow
    assert len(await waiting) == 1


async def test_a_report_whose_time_passed_while_it_waited_is_not_begun(recorder: Recorder) -> None:
    go_on = threading.Event()
    slow = asyncio.create_task(recorder.file.report(lambda store: go_on.wait()))
    waiting = asyncio.create_task(recorder.report("latency", Window("default"), 1, 0, 1.0))
    await asyncio.sleep(0.05)
    go_on.set()
    await slow
    with pytest.raises(DeadlineExceeded):
        await waiting
