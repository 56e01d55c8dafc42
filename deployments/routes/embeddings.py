"""Embedding texts and listing the models, as OpenAI's clients ask for it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from deployments.api import openai
from deployments.api.limits import check_texts
from deployments.routes.dependencies import Gate, Limits, Remaining
from pipeline.errors import InvalidInput

router = APIRouter()


@router.post(
    "/v1/embeddings",
    summary="Embed texts as OpenAI does",
    responses={200: {"model": openai.EmbeddingResponse}},
)
async def embed(
    body: openai.EmbeddingRequest, gate: Gate, limits: Limits, time_left: Remaining
) -> Response:
    """Embed texts, in OpenAI's shape."""
    check_texts(body.input, limits, "input")
    if body.dimensions is not None:  # no text tells how many there are, and costs nothing
        openai.check_dimensions(body, (await gate.embed([], False, time_left)).vectors.shape[1])
    embeddings = await gate.embed(body.input, body.as_queries, time_left)
    return Response(await openai.written(body, embeddings), media_type="application/json")


@router.get("/v1/models", summary="List the models", responses={200: {"model": openai.ModelList}})
async def models(gate: Gate, time_left: Remaining) -> JSONResponse:
    """The models that are served, in OpenAI's shape."""
    try:
        scorer = await gate.describe()
    except InvalidInput:  # there is none
        scorer = None
    try:
        embedder = (await gate.embed([], False, time_left)).model
    except InvalidInput:
        embedder = None
    return JSONResponse(openai.models(scorer, embedder))
