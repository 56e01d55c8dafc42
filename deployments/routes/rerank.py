"""Ranking texts, in the dialects that clients speak. No retrievals: nothing is tracked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body, Depends
from fastapi.responses import JSONResponse

from deployments.api import cohere, jina, nim, tei, vllm
from deployments.api.dialects import Asked, RerankRequest, check_whole
from deployments.api.limits import check_query, check_texts
from deployments.budget import left_s
from deployments.config import LimitsArgs
from deployments.gateway import Gateway
from deployments.ranking import RerankAnswer
from deployments.routes.dependencies import Gate, Limits, Remaining, Tenant
from pipeline.errors import DeadlineExceeded

# Rankings of one request that run side by side: enough for full batches.
RANKINGS_AT_ONCE = 8

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Ranker:
    """Ranks for one request: for its tenant, until its deadline on the monotonic clock."""

    tenant: str
    gate: Gateway
    limits: LimitsArgs
    deadline: float

    async def rank(self, asked: Asked) -> RerankAnswer:
        """Rank within the limits."""
        check_query(asked.query, self.limits, asked.query_param)
        check_texts(asked.texts, self.limits, asked.texts_param)
        ranking = await self.rank_checked(asked)
        if asked.whole:
            check_whole(ranking, asked.texts_param)
        return ranking

    async def rank_all(self, every: Sequence[Asked]) -> list[RerankAnswer]:
        """Rank several, whose sizes have been checked, a few at once; one failure ends all."""
        slots = asyncio.Semaphore(RANKINGS_AT_ONCE)

        async def rank(asked: Asked) -> RerankAnswer:
            async with slots:
                return await self.rank_checked(asked)

        tasks = [asyncio.create_task(rank(asked)) for asked in every]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def rank_checked(self, asked: Asked) -> RerankAnswer:
        time_left = left_s(self.deadline) * 1e3
        if time_left == 0.0:
            raise DeadlineExceeded("not every document was scored in time")
        return await self.gate.rerank(
            self.tenant, asked.query, asked.texts, asked.truncation, time_left
        )


async def ranker_of(tenant: Tenant, gate: Gate, limits: Limits, time_left: Remaining) -> Ranker:
    return Ranker(tenant, gate, limits, time.monotonic() + time_left / 1e3)


Ranking = Annotated[Ranker, Depends(ranker_of)]


@router.post(
    "/v1/rerank",
    summary="Rank documents as Jina does",
    responses={200: {"model": jina.RerankResponse}},
)
async def rerank(body: RerankRequest, ranker: Ranking) -> JSONResponse:
    """Rank documents for a query, for clients of Jina, Cohere v1 and vLLM."""
    return JSONResponse(jina.answer(body, await ranker.rank(body.asked)))


@router.post(
    "/v2/rerank",
    summary="Rank documents as Cohere does",
    responses={200: {"model": cohere.RerankV2Response}},
)
async def rerank_v2(body: RerankRequest, ranker: Ranking) -> JSONResponse:
    """Rank documents for a query, for clients of Cohere v2."""
    return JSONResponse(cohere.answer(body, await ranker.rank(body.asked)))


@router.post(
    "/rerank",
    summary="Rank texts as text-embeddings-inference does",
    responses={200: {"model": tei.TextScores | jina.RerankResponse}},
)
async def rerank_texts(body: Annotated[tei.EitherRequest, Body()], ranker: Ranking) -> JSONResponse:
    """Rank `texts` in the shape of text-embeddings-inference, or `documents` in Jina's."""
    ranking = await ranker.rank(body.asked)
    if isinstance(body, RerankRequest):
        return JSONResponse(jina.answer(body, ranking))
    return JSONResponse(tei.answer(body, ranking))


@router.post(
    "/v1/ranking",
    summary="Rank passages as NIM does",
    responses={200: {"model": nim.RankingResponse}},
)
async def rank_passages(body: nim.RankingRequest, ranker: Ranking) -> JSONResponse:
    """Rank passages for a query by logit, in the shape of NVIDIA's NIM."""
    return JSONResponse(nim.answer(await ranker.rank(body.asked)))


@router.post(
    "/score",
    summary="Score pairs as vLLM does",
    operation_id="score_unversioned",
    responses={200: {"model": vllm.ScoreResponse}},
)
@router.post(
    "/v1/score",
    summary="Score pairs as vLLM does",
    responses={200: {"model": vllm.ScoreResponse}},
)
async def score(body: vllm.ScoreRequest, ranker: Ranking) -> JSONResponse:
    """Score one text with each of many, or pairs, in vLLM's shape; nothing is sorted."""
    for index, query in enumerate(body.text_1):
        check_query(query, ranker.limits, f"text_1[{index}]")
    check_texts(body.text_2, ranker.limits, "text_2")
    parts = body.parts
    rankings = await ranker.rank_all([part.asked for part in parts])
    return JSONResponse(vllm.answer(body, parts, rankings))


@router.get(
    "/info", summary="Describe the model that scores", responses={200: {"model": tei.InfoAnswer}}
)
async def info(gate: Gate, limits: Limits) -> JSONResponse:
    """The model that scores and its limits, in the shape of text-embeddings-inference."""
    return JSONResponse(tei.info(await gate.describe(), limits))
