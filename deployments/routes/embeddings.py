"""Embedding texts and listing the models, as OpenAI's clients ask for it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

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
) -> JSONResponse:
    """Embed texts, in OpenAI's shape."""
    check_texts(body.input, limits, "input")
    return JSONResponse(
        openai.answer(body, await gate.embed(body.input, body.as_queries, time_left))
    )


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
