"""Operating the application: status, health, purging, compacting."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse

from deployments.api import answers, native
from deployments.api.wire import plain
from deployments.routes.dependencies import ADMIN, Gate, Tenant

router = APIRouter()

STARTING = {"status": "starting", "degraded": ["Scorer"]}


@router.post(
    "/v1/admin/purge",
    dependencies=[ADMIN],
    summary="Delete old records",
    responses={200: {"model": answers.PurgeAnswer}},
)
async def purge(body: native.PurgeRequest, tenant: Tenant, gate: Gate) -> JSONResponse:
    """Delete the tenant's retrievals older than `before`, with their hits and feedback."""
    counts = await gate.purge(tenant, body.before, body.dry_run)
    return JSONResponse(
        {"before": body.before.isoformat(), "dry_run": body.dry_run, "deleted": counts}
    )


@router.post(
    "/v1/admin/compact",
    dependencies=[ADMIN],
    summary="Give back the tracker's free space",
    responses={200: {"model": answers.CompactAnswer}},
)
async def compact(body: native.CompactRequest, gate: Gate) -> JSONResponse:
    """Write the tracker's file anew, beside its use; answered when the new one is in use."""
    return JSONResponse(plain(await gate.compact()))


@router.get(
    "/v1/status",
    dependencies=[ADMIN],
    summary="Show the status",
    responses={200: {"model": answers.StatusAnswer}},
)
async def status(gate: Gate) -> JSONResponse:
    """Counters, models, providers, tracker and retention, over all replicas."""
    return JSONResponse(plain(jsonable_encoder(await gate.status())))


@router.get("/healthz", summary="Live?", responses={200: {"model": answers.AliveAnswer}})
async def healthz() -> JSONResponse:
    """Alive."""
    return JSONResponse({"status": "alive"})


@router.get(
    "/readyz",
    summary="Ready?",
    responses={
        200: {"model": answers.ReadyAnswer},
        503: {"model": answers.ReadyAnswer, "content": {"application/json": {"example": STARTING}}},
    },
)
async def readyz(gate: Gate) -> JSONResponse:
    """503 until searches could be answered, a real pair scored; then 200, naming parts down."""
    ready, down = await gate.readiness()
    state = "ready" if ready else "starting"
    return JSONResponse({"status": state, "degraded": down}, 200 if ready else 503)
