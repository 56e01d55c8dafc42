"""Writing and reading corpora and their documents."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse

from deployments.api import answers, native, ndjson
from deployments.api.limits import check_documents
from deployments.api.paging import a_name, one_page, read_token
from deployments.api.wire import plain
from deployments.routes.dependencies import WRITER, CorpusPath, Gate, Limits, Tenant
from deployments.stores.protocol import CorpusSize
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound

DocumentPath = Annotated[
    str, Path(min_length=1, max_length=native.ID_CHARS, description="its id, slashes and all")
]

router = APIRouter()


@router.get("/v1/corpora", summary="List corpora", responses={200: {"model": answers.CorpusPage}})
async def list_corpora(
    page: Annotated[native.Page, Query()], tenant: Tenant, gate: Gate
) -> JSONResponse:
    """Corpora by name, with their counts; null for those of a corpus that cannot be counted."""
    found = await gate.corpora(tenant, begin(page), page.limit + 1)
    items = [{"corpus": name, **counts(size)} for name, size in found]
    return JSONResponse(one_page(items, page.limit, "corpus"))


@router.get(
    "/v1/corpora/{corpus}",
    summary="Count a corpus",
    responses={200: {"model": answers.CorpusAnswer}},
)
async def get_corpus(corpus: CorpusPath, tenant: Tenant, gate: Gate) -> JSONResponse:
    """Count a corpus."""
    size = await gate.size(CorpusKey(tenant, corpus))
    return JSONResponse({"corpus": corpus, **counts(size)})


@router.delete(
    "/v1/corpora/{corpus}",
    dependencies=[WRITER],
    summary="Drop a corpus",
    responses={200: {"model": answers.CorpusDropped}},
)
async def drop_corpus(corpus: CorpusPath, tenant: Tenant, gate: Gate) -> JSONResponse:
    """Delete a corpus with all its documents. What was retrieved from it stays recorded."""
    await gate.drop(CorpusKey(tenant, corpus))
    return JSONResponse({"corpus": corpus, "deleted": True})


@router.put(
    "/v1/corpora/{corpus}/documents",
    dependencies=[WRITER],
    summary="Store documents",
    responses={200: {"model": answers.PutAnswer}},
)
async def put_documents(
    corpus: CorpusPath, body: native.PutDocuments, tenant: Tenant, gate: Gate, limits: Limits
) -> JSONResponse:
    """Store or replace documents; creates the corpus. Each answers for itself in `status`."""
    check_documents(body.documents, limits)
    documents = [one.document() for one in body.documents]
    results = await gate.put(CorpusKey(tenant, corpus), documents)
    return JSONResponse({"corpus": corpus, "documents": [asdict(result) for result in results]})


@router.post(
    "/v1/corpora/{corpus}/documents",
    dependencies=[WRITER],
    summary="Store a stream of documents",
    status_code=200,
    response_class=ndjson.LineResponse,
    responses={200: {"model": answers.LineAnswer}},
    openapi_extra={"requestBody": {"content": ndjson.LINES, "required": True}},
)
async def ingest_documents(
    corpus: CorpusPath, request: Request, tenant: Tenant, gate: Gate, limits: Limits
) -> ndjson.LineResponse:
    """Store or replace the documents of a stream, one a line, of any length; creates the corpus.

    Each line is answered by one, in order and while the stream goes on: `line` (counted from 1),
    `id`, `status` (stored, unchanged, failed, or refused for a line that is wrong), `chunks`,
    `error`. Of two lines with one id the later replaces. Read the answers while you send: when
    they are not taken, no more is read. What was answered is stored, also if you leave.
    """
    put = partial(gate.put, CorpusKey(tenant, corpus))
    return ndjson.LineResponse(ndjson.ingest(request.receive, put, limits))


@router.get(
    "/v1/corpora/{corpus}/documents",
    summary="List documents",
    responses={200: {"model": answers.DocumentPage}},
)
async def list_documents(
    corpus: CorpusPath, page: Annotated[native.Page, Query()], tenant: Tenant, gate: Gate
) -> JSONResponse:
    """The ids and titles of a corpus's documents, by id."""
    found = await gate.documents(CorpusKey(tenant, corpus), begin(page), page.limit + 1)
    items = [{"id": document_id, "title": title} for document_id, title in found]
    return JSONResponse(one_page(items, page.limit, "id"))


@router.get(
    "/v1/corpora/{corpus}/documents/{document_id:path}",
    summary="Show a document",
    responses={200: {"model": answers.DocumentAnswer}},
)
async def get_document(
    corpus: CorpusPath, document_id: DocumentPath, tenant: Tenant, gate: Gate
) -> JSONResponse:
    """A document as it is stored, its text cut into chunks."""
    chunks = await gate.document(CorpusKey(tenant, corpus), document_id)
    if not chunks:
        raise NotFound("no such document in this corpus", "document_id")
    first = chunks[0]
    return JSONResponse(
        {
            "corpus": corpus,
            "id": document_id,
            "title": first.title,
            "source": first.source,
            "metadata": plain(first.metadata),
            "chunks": [chunk.text for chunk in chunks],
        }
    )


@router.delete(
    "/v1/corpora/{corpus}/documents/{document_id:path}",
    dependencies=[WRITER],
    summary="Delete a document",
    responses={200: {"model": answers.DocumentDeleted}},
)
async def delete_document(
    corpus: CorpusPath, document_id: DocumentPath, tenant: Tenant, gate: Gate
) -> JSONResponse:
    """Delete a document with all its chunks."""
    if not await gate.delete(CorpusKey(tenant, corpus), document_id):
        raise NotFound("no such document in this corpus", "document_id")
    return JSONResponse({"corpus": corpus, "id": document_id, "deleted": True})


def begin(page: native.Page) -> str:
    """Return the name behind which a page begins; every name lies behind the empty one."""
    return "" if page.next is None else str(read_token(page.next, a_name)[0])


def counts(size: CorpusSize | None) -> dict[str, int | None]:
    if size is None:
        return {"documents": None, "chunks": None}
    return {"documents": size.documents, "chunks": size.chunks}
