"""Writing and reading corpora and their documents."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from deployments.api import native
from deployments.api.limits import check_documents
from deployments.routes.dependencies import WRITER, CorpusPath, Gate, Limits, Tenant
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound

router = APIRouter()


@router.put("/v1/corpora/{corpus}/documents", dependencies=[WRITER])
async def put_documents(
    corpus: CorpusPath, body: native.PutDocuments, tenant: Tenant, gate: Gate, limits: Limits
) -> JSONResponse:
    """Store or replace documents; creates the corpus. Each answers for itself in `status`."""
    check_documents(body.documents, limits)
    documents = [one.document() for one in body.documents]
    results = await gate.put(CorpusKey(tenant, corpus), documents)
    return JSONResponse({"corpus": corpus, "documents": [asdict(result) for result in results]})


@router.delete("/v1/corpora/{corpus}/documents/{document_id:path}", dependencies=[WRITER])
async def delete_document(
    corpus: CorpusPath, document_id: str, tenant: Tenant, gate: Gate
) -> JSONResponse:
    """Delete a document with all its chunks."""
    if not await gate.delete(CorpusKey(tenant, corpus), document_id):
        raise NotFound("no such document in this corpus", "document_id")
    return JSONResponse({"corpus": corpus, "id": document_id, "deleted": True})
