"""Searching, judging what was found, and reading what was recorded."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse

from deployments.api import answers, native
from deployments.api.limits import check_search
from deployments.api.paging import a_name, a_time, an_offset, one_page, read_token, write_token
from deployments.api.wire import plain
from deployments.routes.dependencies import Gate, Limits, Remaining, Tenant
from tracker.records import RetrievalRecord, Window

RetrievalPath = Annotated[str, Path(max_length=native.ID_CHARS, description="of a search's answer")]
ReportPath = Annotated[str, Path(max_length=64, description="its name; 404 lists all of them")]

router = APIRouter()


@router.post(
    "/v1/search", summary="Search a corpus", responses={200: {"model": answers.SearchAnswer}}
)
async def search(
    body: native.SearchRequest,
    request: Request,
    tenant: Tenant,
    gate: Gate,
    limits: Limits,
    time_left: Remaining,
) -> JSONResponse:
    """Retrieve, correct and rerank; the answer is recorded under its `retrieval_id`."""
    check_search(body, limits)
    answer = await gate.search(tenant, body.given(), time_left)
    request.state.timings_ms = {k: v for k, v in answer["timings_ms"].items() if k != "total"}
    return JSONResponse(answer)


@router.post(
    "/v1/feedback", summary="Judge a document", responses={200: {"model": answers.FeedbackAnswer}}
)
async def feedback(body: native.FeedbackRequest, tenant: Tenant, gate: Gate) -> JSONResponse:
    """Judge a document of a retrieval; answered once it is durable. A repeat replaces."""
    await gate.feedback(tenant, body.retrieval_id, body.document_id, body.outcome)
    return JSONResponse(
        {
            "retrieval_id": body.retrieval_id,
            "document_id": body.document_id,
            "outcome": body.outcome,
        }
    )


@router.get(
    "/v1/retrievals",
    summary="List recorded searches",
    responses={200: {"model": answers.RetrievalPage}},
)
async def list_retrievals(
    page: Annotated[native.WindowPage, Query()], tenant: Tenant, gate: Gate
) -> JSONResponse:
    """Recorded searches, the newest first, without their hits."""
    after = None if page.next is None else read_token(page.next, a_time, a_name)
    window = Window(tenant, page.corpus, page.since, page.until)
    records = await gate.retrievals(window, page.limit + 1, after)
    items = [searched(record) for record in records]
    return JSONResponse(one_page(items, page.limit, "retrieved_at", "retrieval_id"))


@router.get(
    "/v1/retrievals/{retrieval_id}",
    summary="Show a recorded search",
    responses={200: {"model": answers.RetrievalAnswer}},
)
async def get_retrieval(retrieval_id: RetrievalPath, tenant: Tenant, gate: Gate) -> JSONResponse:
    """A recorded search with all its candidates, returned or not, and the feedback on them."""
    found = await gate.retrieval(tenant, retrieval_id)
    hits = [plain(hit) for hit in found.record.hits]
    given = ("document_id", "outcome", "given_at")
    feedback = [{name: plain(getattr(one, name)) for name in given} for one in found.feedback]
    return JSONResponse({**searched(found.record), "hits": hits, "feedback": feedback})


@router.get(
    "/v1/reports/{name}", summary="Read a report", responses={200: {"model": answers.ReportPage}}
)
async def report(
    name: ReportPath, page: Annotated[native.WindowPage, Query()], tenant: Tenant, gate: Gate
) -> JSONResponse:
    """What the searches of a window of time, and the judgements on them, tell.

    Rows come in the report's own order. One that takes too long is broken off: 504.
    """
    until, offset = page.until or datetime.now(timezone.utc), 0
    if page.next is not None:
        until, offset = read_token(page.next, a_time, an_offset)
    window = Window(tenant, page.corpus, page.since, until)
    rows = await gate.report(name, window, page.limit + 1, offset)
    goes_on = len(rows) > page.limit
    # The end of the window goes along: what comes later must not shift the places.
    token = write_token(until.isoformat(), offset + page.limit) if goes_on else None
    items = plain(rows[: page.limit])
    return JSONResponse({"report": name, "items": items, "next": token})


def searched(record: RetrievalRecord) -> dict[str, Any]:
    """Return what a record says of its search; whose it is the asker knows."""
    fields: dict[str, Any] = plain(replace(record, hits=()))
    return {name: value for name, value in fields.items() if name not in ("tenant", "hits")}
