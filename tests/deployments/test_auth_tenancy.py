"""Two tenants of one application, whose parts are real ones in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.composer import Composer
from deployments.config import AppArgs
from deployments.indexer import Indexer
from deployments.recorder import Recorder
from deployments.retrieval import Retrieval
from deployments.serve_gateway import ServeGateway
from tests.deployments.handles import ScriptedHandle
from tests.deployments.keyed import bearer, keyed_client
from tests.records import record

UNKNOWN = "0199b1d4-0000-7000-8000-000000000000"  # as old as it is unknown


class PartHandle(ScriptedHandle):
    """Calls a part of this process."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part
        self.method = ""

    def options(self, *, method_name: str, _by_reference: bool) -> PartHandle:
        bound = PartHandle(self.part)
        bound.method = method_name
        return bound

    async def remote(self, *args: Any) -> Any:  # type: ignore[override]
        return await getattr(self.part, self.method)(*args)


@dataclass(frozen=True, slots=True)
class Tenants:
    """A client of each tenant; both hold the role admin."""

    acme: httpx.AsyncClient
    other: httpx.AsyncClient
    recorder: Recorder


@pytest.fixture
async def tenants(tmp_path: Path) -> AsyncIterator[Tenants]:
    args = AppArgs.model_validate(
        {
            "embedder": None,
            "scorer": None,
            "index": {"uri": str(tmp_path / "index")},
            "tracker": {"path": str(tmp_path / "tracker.duckdb"), "durability": "commit"},
        }
    )
    recorder = Recorder(args.tracker)
    to_recorder: Any = PartHandle(recorder)
    indexer = Indexer.__new__(Indexer)
    await indexer.__init__(args.index, args.chunking, None, None, to_recorder)  # type: ignore[misc]
    to_retrieval: Any = PartHandle(Retrieval(args.index))
    composer = Composer(args, to_retrieval, None, None, to_recorder)
    parts: Mapping[str, Any] = {
        "Composer": PartHandle(composer),
        "Retrieval": to_retrieval,
        "Indexer": PartHandle(indexer),
        "Recorder": to_recorder,
    }
    gateway = ServeGateway(parts)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(recorder.close)
        stack.push_async_callback(composer.close)
        stack.push_async_callback(indexer.maintenance.close)
        acme = await stack.enter_async_context(keyed_client(gateway, bearer("boss")))
        other = await stack.enter_async_context(keyed_client(gateway, bearer("other")))
        yield Tenants(acme, other, recorder)


async def put(client: httpx.AsyncClient, corpus: str, document: str, text: str) -> None:
    documents = [{"id": document, "text": text}]
    response = await client.put(f"/v1/corpora/{corpus}/documents", json={"documents": documents})
    assert response.json()["documents"][0]["status"] == "stored"


async def search(client: httpx.AsyncClient, corpus: str, query: str) -> tuple[str, list[str]]:
    """The retrieval's id, and the ids of the documents found."""
    response = await client.post("/v1/search", json={"query": query, "corpus": corpus})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["degraded"] == []
    return answer["retrieval_id"], [hit["document_id"] for hit in answer["hits"]]


def refusal(response: httpx.Response) -> tuple[int, dict[str, Any]]:
    """The status and error, without what tells one request from another."""
    return response.status_code, {**response.json()["error"], "request_id": None}


async def test_a_corpus_of_one_name_is_another_corpus_for_each_tenant(tenants: Tenants) -> None:
    await put(tenants.acme, "docs", "a", "the harbour of Acme")
    await put(tenants.other, "docs", "b", "the harbour of another")
    assert (await search(tenants.acme, "docs", "harbour"))[1] == ["a"]
    assert (await search(tenants.other, "docs", "harbour"))[1] == ["b"]
    for client, document in ((tenants.acme, "a"), (tenants.other, "b")):
        listed = (await client.get("/v1/corpora/docs/documents")).json()["items"]
        assert [one["id"] for one in listed] == [document]


async def test_anothers_corpus_is_as_unknown_as_one_that_never_was(tenants: Tenants) -> None:
    await put(tenants.acme, "docs", "a", "the harbour of Acme")
    asks: list[tuple[str, str, Any]] = [
        ("POST", "/v1/search", {"query": "harbour", "corpus": "NAME"}),
        ("GET", "/v1/corpora/NAME", None),
        ("DELETE", "/v1/corpora/NAME", None),
        ("GET", "/v1/corpora/NAME/documents", None),
        ("GET", "/v1/corpora/NAME/documents/a", None),
        ("DELETE", "/v1/corpora/NAME/documents/a", None),
    ]
    for method, path, body in asks:
        answers = []
        for name in ("docs", "never"):
            named = body and {**body, "corpus": name}
            response = await tenants.other.request(method, path.replace("NAME", name), json=named)
            answers.append(refusal(response))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404
    assert (await tenants.other.get("/v1/corpora")).json()["items"] == []
    assert (await search(tenants.acme, "docs", "harbour"))[1] == ["a"]


async def test_anothers_retrieval_is_as_unknown_as_one_that_never_was(tenants: Tenants) -> None:
    await put(tenants.acme, "docs", "a", "the harbour of Acme")
    retrieval_id, _ = await search(tenants.acme, "docs", "harbour")
    answers = [await tenants.other.get(f"/v1/retrievals/{one}") for one in (retrieval_id, UNKNOWN)]
    assert refusal(answers[0]) == refusal(answers[1])
    judged = [
        await tenants.other.post(
            "/v1/feedback", json={"retrieval_id": one, "document_id": "a", "outcome": "relevant"}
        )
        for one in (retrieval_id, UNKNOWN)
    ]
    assert refusal(judged[0]) == refusal(judged[1])
    assert [one.status_code for one in (*answers, *judged)] == [404] * 4
    mine = (await tenants.acme.get(f"/v1/retrievals/{retrieval_id}")).json()
    assert (mine["query"], mine["feedback"]) == ("harbour", [])


async def test_lists_and_reports_hold_the_tenants_own(tenants: Tenants) -> None:
    for client, tenant in ((tenants.acme, "acme"), (tenants.other, "other")):
        one = record("a", tenant=tenant, at=datetime.now(timezone.utc))
        await tenants.recorder.record([one])
        body = {"retrieval_id": one.retrieval_id, "document_id": "a", "outcome": "relevant"}
        assert (await client.post("/v1/feedback", json=body)).status_code == 200
        for path in ("/v1/retrievals", "/v1/reports/judged-scores"):
            items = (await client.get(path)).json()["items"]
            assert [item["retrieval_id"] for item in items] == [one.retrieval_id]


async def test_a_purge_is_of_the_tenant_that_asks(tenants: Tenants) -> None:
    kept = {}
    for client, document in ((tenants.acme, "a"), (tenants.other, "b")):
        await put(client, "docs", document, "the harbour")
        kept[document], _ = await search(client, "docs", "harbour")
    found = (await tenants.acme.get(f"/v1/retrievals/{kept['a']}")).json()
    later = (await tenants.other.get(f"/v1/retrievals/{kept['b']}")).json()
    assert found["retrieved_at"] < later["retrieved_at"]
    body = {"before": later["retrieved_at"], "dry_run": False}
    assert (await tenants.other.post("/v1/admin/purge", json=body)).json()["deleted"] == {
        "retrievals": 0,
        "hits": 0,
        "feedback": 0,
        "comparisons": 0,
    }
    assert (await tenants.acme.get(f"/v1/retrievals/{kept['a']}")).status_code == 200
    deleted = (await tenants.acme.post("/v1/admin/purge", json=body)).json()["deleted"]
    assert (deleted["retrievals"], deleted["hits"]) == (1, 1)
    assert (await tenants.acme.get(f"/v1/retrievals/{kept['a']}")).status_code == 404
    assert (await tenants.other.get(f"/v1/retrievals/{kept['b']}")).status_code == 200
