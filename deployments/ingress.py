"""The HTTP routes; everything they do is done elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from ray import serve

from deployments import errors
from deployments.api import jina, native
from deployments.api.limits import check_documents, check_query, check_rerank, check_search
from deployments.config import AuthArgs, LimitsArgs
from deployments.gateway import Gateway, ServeGateway
from deployments.handles import Handle
from deployments.logs import join_serve_log
from deployments.middleware import RequestFrame
from deployments.options import CORPUS
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound
from tracker.records import Window

# Without API keys there is one tenant.
TENANT = "default"
MAX_OFFSET = 10_000_000

router = APIRouter()

# These are asynchronous though they wait for nothing: FastAPI runs others in threads.


async def gateway_of(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


async def limits_of(request: Request) -> LimitsArgs:
    limits: LimitsArgs = request.app.state.limits
    return limits


async def remaining_ms(
    limits: Annotated[LimitsArgs, Depends(limits_of)],
    x_request_timeout_ms: Annotated[
        int | None, Header(ge=1, description="time for this request, in ms")
    ] = None,
) -> float:
    """The request's time: what it asks for, at most the configured deadline."""
    return min(x_request_timeout_ms or limits.deadline_ms, limits.deadline_ms)


Gate = Annotated[Gateway, Depends(gateway_of)]
Limits = Annotated[LimitsArgs, Depends(limits_of)]
Remaining = Annotated[float, Depends(remaining_ms)]
CorpusPath = Annotated[str, Path(pattern=CORPUS)]


@router.post("/v1/search")
async def search(
    body: native.SearchRequest, request: Request, gate: Gate, limits: Limits, time_left: Remaining
) -> JSONResponse:
    """Retrieve, correct and rerank; the answer is recorded under its `retrieval_id`."""
    check_search(body, limits)
    answer = await gate.search(TENANT, body.given(), time_left)
    request.state.timings_ms = {k: v for k, v in answer["timings_ms"].items() if k != "total"}
    return JSONResponse(answer)


@router.post("/v1/rerank")
async def rerank(
    body: jina.RerankRequest, gate: Gate, limits: Limits, time_left: Remaining
) -> JSONResponse:
    """Rank documents for a query, in Jina's shape. Not a retrieval: not tracked."""
    check_query(body.query, limits)
    texts = body.texts
    check_rerank(texts, limits)
    ranking = await gate.rerank(TENANT, body.query, texts, body.truncation, time_left)
    return JSONResponse(jina.answer(body, ranking))


@router.put("/v1/corpora/{corpus}/documents")
async def put_documents(
    corpus: CorpusPath, body: native.PutDocuments, gate: Gate, limits: Limits
) -> JSONResponse:
    """Store or replace documents; creates the corpus. Each answers for itself in `status`."""
    check_documents(body.documents, limits)
    documents = [one.document() for one in body.documents]
    results = await gate.put(CorpusKey(TENANT, corpus), documents)
    return JSONResponse({"corpus": corpus, "documents": [asdict(result) for result in results]})


@router.delete("/v1/corpora/{corpus}/documents/{document_id:path}")
async def delete_document(corpus: CorpusPath, document_id: str, gate: Gate) -> JSONResponse:
    """Delete a document with all its chunks."""
    if not await gate.delete(CorpusKey(TENANT, corpus), document_id):
        raise NotFound("no such document in this corpus", "document_id")
    return JSONResponse({"corpus": corpus, "id": document_id, "deleted": True})


@router.post("/v1/feedback")
async def feedback(body: native.FeedbackRequest, gate: Gate) -> JSONResponse:
    """Judge a document of a retrieval; answered once it is durable. A repeat replaces."""
    await gate.feedback(TENANT, body.retrieval_id, body.document_id, body.outcome)
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
    gate: Gate,
    corpus: Annotated[str | None, Query(pattern=CORPUS, description="null: all")] = None,
    since: Annotated[native.Time | None, Query(description="RFC 3339")] = None,
    until: Annotated[native.Time | None, Query(description="RFC 3339; not included")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
) -> JSONResponse:
    """Rows of a report over a window of time, newest first."""
    rows = await gate.report(name, Window(TENANT, corpus, since, until), limit, offset)
    return JSONResponse(jsonable_encoder({"report": name, "rows": rows}))


@router.post("/v1/admin/purge")
async def purge(body: native.PurgeRequest, gate: Gate) -> JSONResponse:
    """Delete retrievals older than `before`, with their hits and feedback."""
    counts = await gate.purge(body.before, body.dry_run)
    return JSONResponse(
        {"before": body.before.isoformat(), "dry_run": body.dry_run, "deleted": counts}
    )


@router.get("/v1/status")
async def status(gate: Gate) -> JSONResponse:
    """Counters, models, providers, tracker and retention, over all replicas."""
    return JSONResponse(jsonable_encoder(await gate.status()))


@router.get("/healthz")
async def healthz() -> JSONResponse:
    """Alive."""
    return JSONResponse({"status": "alive"})


@router.get("/readyz")
async def readyz(gate: Gate) -> JSONResponse:
    """503 until searches could be answered, a real pair scored; then 200, naming parts down."""
    ready, down = await gate.readiness()
    state = "ready" if ready else "starting"
    return JSONResponse({"status": state, "degraded": down}, 200 if ready else 503)


def create_api(
    gateway: Gateway, limits: LimitsArgs, auth: AuthArgs, *, names_request: bool = True
) -> FastAPI:
    """Build the HTTP application around a gateway."""
    app = FastAPI(
        title="Onepass",
        description="Retrieve, correct, rerank: one cross-encoder pass per (query, text) pair.",
    )
    app.state.gateway = gateway
    app.state.limits = limits
    app.include_router(router)
    errors.install(app)
    app.add_middleware(
        RequestFrame,
        body_bytes=limits.body_bytes,
        allow_anonymous=auth.allow_anonymous,
        names_request=names_request,
    )
    return app


@serve.ingress()
class Ingress:
    """Serves the routes on Ray's HTTP proxy."""

    def __init__(self, parts: Mapping[str, Handle], limits: LimitsArgs, auth: AuthArgs) -> None:
        join_serve_log()
        # HAProxy, the other ingress that Serve knows, leaves the answer's headers alone.
        names_request = os.environ.get("RAY_SERVE_ENABLE_HA_PROXY") == "1"
        self.api = create_api(ServeGateway(parts), limits, auth, names_request=names_request)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self.api
