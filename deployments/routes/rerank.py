"""Ranking texts, in the dialects that clients speak."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from deployments.api import jina
from deployments.api.limits import check_query, check_rerank
from deployments.routes.dependencies import Gate, Limits, Remaining, Tenant

router = APIRouter()


@router.post("/v1/rerank")
async def rerank(
    body: jina.RerankRequest, tenant: Tenant, gate: Gate, limits: Limits, time_left: Remaining
) -> JSONResponse:
    """Rank documents for a query, in Jina's shape. Not a retrieval: not tracked."""
    check_query(body.query, limits)
    texts = body.texts
    check_rerank(texts, limits)
    ranking = await gate.rerank(tenant, body.query, texts, body.truncation, time_left)
    return JSONResponse(jina.answer(body, ranking))
