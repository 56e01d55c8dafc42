"""Serve applications whose scorer does no work: ours, and bare handlers to hold it against.

All have the Serve options and the runtime environment of deployments.app.
"""

# No postponed annotations here: Serve reads the type of `args` to validate it.

import os
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from ray import serve
from ray.serve import Application, Deployment
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from deployments import app
from deployments.config import AppArgs, ScorerArgs
from deployments.handles import Handle
from deployments.inference.truncation import Truncation
from deployments.options import Options
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally

MODEL = "no model"
LOGIT, RELEVANCE, TOKENS = 1.5, 0.8175744761936437, 142
WINDOW = 512

# Place, relevance, logit, truncated, tokens.
Row = tuple[int, float, float, bool, int]


class Scorer:
    """Stands in our Scorer's place and gives every pair the same score at once."""

    def __init__(self, args: ScorerArgs) -> None:
        pass

    async def score(
        self,
        tenant: str,
        query: str,
        pairs: Sequence[Pair],
        truncation: Truncation,
        timeout_ms: float,
    ) -> ScoreAnswer:
        scores = tuple(PairScore(LOGIT, RELEVANCE, tokens=TOKENS) for _ in pairs)
        return ScoreAnswer(MODEL, scores, Tally(passes=len(pairs), tokens=TOKENS * len(pairs)))

    async def describe(self) -> dict[str, Any]:
        return {"model": MODEL, "max_tokens": WINDOW}

    async def ping(self) -> str:
        return MODEL

    async def status(self) -> dict[str, Any]:
        names = ("requested", "scored", "cached", "shared", "failed")
        counters = {"tokens": 0, "padded_tokens": 0, **{f"pairs_{name}": 0 for name in names}}
        return {"pid": os.getpid(), "model": MODEL, "provider": MODEL, "counters": counters}


def build_ours(args: AppArgs) -> Application:
    """Our application as it is, but for the scorer's class."""
    with patch.object(app, "Scorer", Scorer):
        return app.build(args)


@serve.ingress()
class Bare:
    """Parses a rerank request and answers at once, itself or through a worker."""

    def __init__(self, worker: Handle | None) -> None:
        self.worker = worker
        self.api = Starlette(
            routes=[
                Route("/v1/rerank", self.rerank, methods=["POST"]),
                Route("/readyz", self.ready),
            ]
        )

    def __serve_build_asgi_app__(self) -> Starlette:
        return self.api

    async def rerank(self, request: Request) -> JSONResponse:
        body = await request.json()
        return JSONResponse(answer(await rows_of(self.worker, body["query"], body["documents"])))

    async def ready(self, request: Request) -> JSONResponse:
        return JSONResponse({"rows": len(await rows_of(self.worker, "query", ["text"]))})


class Worker:
    """Answers at once, itself or through the next worker."""

    def __init__(self, worker: Handle | None) -> None:
        self.worker = worker

    async def rank(self, query: str, documents: Sequence[str]) -> list[Row]:
        return await rows_of(self.worker, query, documents)


class BareArgs(Options):
    """`hops` is the number of calls across handles behind the one that takes the request."""

    hops: int


def build_bare(args: BareArgs) -> Application:
    worker: Application | None = None
    for number in range(args.hops):
        options = app.OPTIONS["Composer"]
        worker = bare(Worker, f"Worker{number}", access_log=False, **options).bind(worker)
    return bare(Bare, "Bare", access_log=True, **app.OPTIONS["Ingress"]).bind(worker)


def bare(cls: type, name: str, *, access_log: bool, **options: Any) -> Deployment:
    """Make a deployment with the options that deployments.app gives its own."""
    return serve.deployment(
        name=name,
        ray_actor_options={"num_cpus": app.CPUS, "runtime_env": {"env_vars": app.ONE_LOOP}},
        logging_config={"enable_access_log": access_log},
        **options,
    )(cls)


async def rows_of(worker: Handle | None, query: str, documents: Sequence[str]) -> list[Row]:
    """The same score for each document; by value across the handle, which is the faster way."""
    if worker is None:
        return [(place, RELEVANCE, LOGIT, False, TOKENS) for place in range(len(documents))]
    remote = worker.options(method_name="rank", _by_reference=False)
    rows: list[Row] = await remote.remote(query, documents)
    return rows


def answer(rows: Sequence[Row]) -> dict[str, Any]:
    """An answer in the shape, and so of the size, of our own."""
    tokens = sum(row[-1] for row in rows)
    return {
        "id": "0" * 32,
        "model": MODEL,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "results": [
            {
                "index": place,
                "relevance_score": relevance,
                "logit": logit,
                "truncated": truncated,
                "tokens": seen,
            }
            for place, relevance, logit, truncated, seen in rows
        ],
        "meta": {
            "api_version": {"version": "1"},
            "billed_units": {"search_units": -(-len(rows) // 100)},
            "forward_passes": len(rows),
            "cached_scores": 0,
            "shared_scores": 0,
            "unscored": [],
        },
    }
