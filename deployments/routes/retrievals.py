"""Searching, judging what was found, and reading what was recorded."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse

from deployments.api import native
from deployments.api.limits import check_search
from deployments.options import CORPUS
from deployments.routes.dependencies import Gate, Limits, Remaining, Tenant
from tracker.records import Window

MAX_OFFSET = 10_000_000

router = APIRouter()


@router.post("/v1/search")
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


@router.post("/v1/feedback")
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


@router.get("/v1/reports/{name}")
async def report(
    name: str,
    tenant: Tenant,
    gate: Gate,
    corpus: Annotated[str | None, Query(pattern=CORPUS, description="null: all")] = None,
    since: Annotated[native.Time | None, Query(description="RFC 3339")] = None,
    until: Annotated[native.Time | None, Query(description="RFC 3339; not included")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
) -> JSONResponse:
    """Rows of a report over a window of time, newest first."""
    rows = await gate.report(name, Window(tenant, corpus, since, until), limit, offset)
    return JSONResponse(jsonable_encoder({"report": name, "rows": rows}))
