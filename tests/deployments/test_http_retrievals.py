"""Reading what was recorded over HTTP: retrievals and reports, page by page."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone

import httpx
import pytest

from deployments.api.paging import write_token
from pipeline.errors import NotFound
from tests.deployments.gateway import AT, RecordingGateway, error_of
from tracker.records import Window


async def test_retrievals_come_page_by_page_without_their_hits(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    query = {"corpus": "c", "since": "2026-01-01T01:00:00+01:00", "limit": "2"}
    first = (await client.get("/v1/retrievals", params=query)).json()
    assert [item["retrieval_id"] for item in first["items"]] == ["r3", "r2"]
    assert first["items"][0] == {
        "retrieval_id": "r3",
        "corpus": "c",
        "query": "q3",
        "retrieved_at": "2026-01-01T00:00:00+00:00",
        "verdict": "correct",
        "corrections": 1,
        "rerank_applied": True,
        "degraded": ["leg:dense"],
        "forward_passes": 2,
        "reused_scores": 3,
        "cached_scores": 4,
        "shared_scores": 5,
        "model": "minilm@1f3c",
        "timings_ms": {"retrieve": 9.8, "total": 828.1},
    }
    second = (await client.get("/v1/retrievals", params={**query, "next": first["next"]})).json()
    assert [item["retrieval_id"] for item in second["items"]] == ["r1"]
    assert second["next"] is None
    window = Window("default", "c", AT, None)
    assert gateway.calls == [
        ("retrievals", window, 3, None),
        ("retrievals", window, 3, (AT, "r2")),
    ]


async def test_a_retrieval_is_shown_with_all_its_candidates_and_its_feedback(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    answer = (await client.get("/v1/retrievals/r1")).json()
    assert "tenant" not in answer
    assert [(hit["hit_id"], hit["rank"], hit["logit"]) for hit in answer["hits"]] == [
        ("a#0", 1, 3.1),
        ("dropped#0", None, None),
    ]
    assert answer["feedback"] == [
        {"document_id": "a", "outcome": "relevant", "given_at": "2026-01-01T00:00:00+00:00"}
    ]
    assert gateway.calls == [("retrieval", "default", "r1")]


async def test_a_retrieval_that_the_tenant_does_not_have_is_404(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    gateway.error = NotFound("no such retrieval", "retrieval_id")
    response = await client.get("/v1/retrievals/another-tenants")
    assert error_of(response) == (404, "not_found", "retrieval_id")


async def test_an_overlong_id_is_422_and_not_looked_up(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    response = await client.get(f"/v1/retrievals/{'r' * 513}")
    assert error_of(response) == (422, "invalid_input", "retrieval_id")
    assert gateway.calls == []


async def test_a_report_keeps_its_end_from_page_to_page_so_that_new_rows_shift_nothing(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    query = {"corpus": "c", "since": "2025-01-01T00:00:00Z", "limit": "2"}
    before = datetime.now(timezone.utc)
    first = (await client.get("/v1/reports/judged-scores", params=query)).json()
    row = {"at": "2026-01-01T00:00:00+00:00", "relevance": None}
    assert (first["report"], first["items"]) == ("judged-scores", [row, row])
    await client.get("/v1/reports/judged-scores", params={**query, "next": first["next"]})
    (_, name, window, limit, offset), (_, _, second_window, _, second_offset) = gateway.calls
    assert (name, limit, offset, second_offset) == ("judged-scores", 3, 0, 2)
    assert window == second_window
    assert before <= window.until <= datetime.now(timezone.utc)
    assert (window.tenant, window.corpus, window.since) == (
        "default",
        "c",
        datetime(2025, 1, 1, tzinfo=timezone.utc),
    )


async def test_the_last_page_of_a_report_has_no_next(client: httpx.AsyncClient) -> None:
    query = {"until": "2026-02-01T00:00:00Z", "limit": "3"}
    answer = (await client.get("/v1/reports/comparisons", params=query)).json()
    assert (len(answer["items"]), answer["next"]) == (3, None)


@pytest.mark.parametrize("path", ["/v1/reports/comparisons", "/v1/retrievals"])
@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"since": "2026-01-01"}, "since"),
        ({"since": "0001-01-01T00:00:00+23:00"}, "since"),
        ({"until": "yesterday"}, "until"),
        ({"corpus": "/"}, "corpus"),
        ({"next": "x" * 4097}, "next"),
        ({"offset": "3"}, "offset"),
        ({"limt": "3"}, "limt"),
    ],
)
async def test_a_wrong_part_of_a_list_is_422_naming_the_parameter(
    client: httpx.AsyncClient,
    gateway: RecordingGateway,
    path: str,
    query: dict[str, str],
    param: str,
) -> None:
    response = await client.get(path, params=query)
    assert error_of(response) == (422, "invalid_input", param)
    assert gateway.calls == []


def encoded(place: bytes) -> str:
    return base64.urlsafe_b64encode(place).decode()


@pytest.mark.parametrize("path", ["/v1/reports/comparisons", "/v1/retrievals", "/v1/corpora"])
@pytest.mark.parametrize(
    "token",
    [
        "",
        "é",
        "not base64!",
        encoded(b"\xff"),
        encoded(b"[" * 3000),
        encoded(b"3"),
        encoded(b'["a", "b", "c"]'),
        encoded(b'["2026-01-01T00:00:00", "r"]'),
        encoded(b'["2026-01-01T00:00:00Z", -1]'),
        encoded(b'["2026-01-01T00:00:00Z", true]'),
        encoded(b'["2026-01-01T00:00:00Z", 1e999]'),
        encoded(b'["2026-01-01T00:00:00Z", "\\ud800"]'),
        encoded(b'["\\ud800"]'),
        encoded(b"[{}]"),
    ],
)
async def test_a_token_that_no_page_gave_is_422(
    client: httpx.AsyncClient, gateway: RecordingGateway, path: str, token: str
) -> None:
    response = await client.get(path, params={"next": token})
    assert error_of(response) == (422, "invalid_input", "next")
    assert gateway.calls == []


async def test_a_token_of_another_list_is_422(client: httpx.AsyncClient) -> None:
    token = write_token("a")
    assert (await client.get("/v1/corpora", params={"next": token})).status_code == 200
    response = await client.get("/v1/retrievals", params={"next": token})
    assert error_of(response) == (422, "invalid_input", "next")


async def test_a_time_in_another_zone_is_the_same_moment(
    client: httpx.AsyncClient, gateway: RecordingGateway
) -> None:
    until = AT.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat()
    await client.get("/v1/retrievals", params={"until": until})
    assert gateway.calls[0][1] == Window("default", None, None, AT)
