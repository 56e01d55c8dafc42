"""The Composer deployment: hands the other deployments to the pipeline as plain callables."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from deployments.answers import Asked, retrieval_record, search_answer
from deployments.budget import left_s
from deployments.config import AppArgs, with_user_config
from deployments.handles import Handle, call
from deployments.inference.truncation import Truncation
from deployments.legs import LegRequest, Legs
from deployments.logs import join_serve_log
from deployments.options import ConfigError
from deployments.outbox import Outbox
from deployments.planning import plan_search
from deployments.ranking import RerankAnswer, rerank_texts
from deployments.scorer_client import ScorerClient
from pipeline.chain import SearchPlan, SearchResult, Stopwatch, search
from pipeline.documents import CorpusKey
from pipeline.errors import (
    DeadlineExceeded,
    InvalidInput,
    OnepassError,
)
from pipeline.scoring import Score
from tracker.records import RetrievalRecord

logger = logging.getLogger(__name__)

RECORD_TIMEOUT_S = 10.0
# What a search keeps for its answer after a commit that it waits for.
ANSWER_S = 0.2
FLUSH_S = 3.0


class Composer:
    """Runs searches. Thresholds and switches come from `user_config` without a restart."""

    def __init__(
        self,
        args: AppArgs,
        retrieval: Handle,
        embedder: Handle | None,
        scorer: Handle | None,
        recorder: Handle,
    ) -> None:
        join_serve_log()
        self.args = args
        self.defaults = args.search
        self.configured = False
        self.config_error: str | None = None
        self.retrieval = retrieval
        self.embedder = embedder
        self.scorer = (
            ScorerClient(scorer, args.scorer.timeout_ms) if scorer and args.scorer else None
        )
        self.recorder = recorder
        self.outbox = Outbox(self._send_records, args.tracker.outbox_rows)
        self.outbox.start()
        # Serve awaits this at shutdown; Python's collector, which looks at the class, does not.
        self.__del__ = self.close
        self.searches = self.degraded_searches = self.pairs_reused = 0

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Take new search options.

        At the start a wrong one raises ConfigError. Later it is logged and shown in the status,
        and the old options stay: an error here would make Serve stop a replica that serves.
        """
        try:
            self.defaults = with_user_config(self.args, user_config)
        except ConfigError as error:
            if not self.configured:
                raise
            logger.error("user_config was refused, the old one stays: %s", error)
            self.config_error = str(error)
        else:
            self.configured, self.config_error = True, None

    async def search(
        self, tenant: str, retrieval_id: str, request: Mapping[str, Any], remaining_ms: float
    ) -> dict[str, Any]:
        """Answer a search; `request` is what the ingress has validated and parsed."""
        deadline = time.monotonic() + remaining_ms / 1e3
        plan = plan_search(self.defaults, request, has_scorer=self.scorer is not None)
        asked = Asked(
            retrieval_id=retrieval_id,
            corpus=CorpusKey(tenant, request["corpus"]),
            query=plan.query,
            retrieved_at=datetime.now(timezone.utc),
        )
        legs = Legs(
            self.retrieval,
            self.embedder,
            LegRequest(asked.corpus, plan.query, request.get("filter"), deadline),
            self.args.index.leg_timeout_ms,
        )
        score = self.scorer.for_search(tenant, deadline) if self.scorer else None
        try:
            result = await asyncio.wait_for(run_search(plan, legs, score), left_s(deadline))
        except asyncio.TimeoutError:
            raise DeadlineExceeded("the search did not finish in time") from None
        tracked = await self._record(retrieval_record(result, asked), deadline)
        degraded = result.degraded + (() if tracked else ("tracking",))
        self._count(result, degraded)
        return search_answer(result, asked, degraded)

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer:
        """Rank texts for a query: what the rerank dialects put on the wire."""
        if self.scorer is None:
            raise InvalidInput("reranking needs a scorer, and none is configured")
        deadline = time.monotonic() + remaining_ms / 1e3
        score = self.scorer.for_rerank(tenant, deadline, truncation)
        return await rerank_texts(query, documents, score)

    async def _record(self, record: RetrievalRecord, deadline: float) -> bool:
        """Hand the record over; waits for its commit only if tracking is to be durable."""
        if self.args.tracker.durability == "async":
            return self.outbox.put(record)
        seconds = left_s(deadline, RECORD_TIMEOUT_S, ANSWER_S)
        try:
            return not await self._send_records([record], seconds)
        except OnepassError as error:
            logger.warning("a retrieval was not recorded: %s", error)
            return False

    async def _send_records(
        self, records: Sequence[RetrievalRecord], timeout_s: float = RECORD_TIMEOUT_S
    ) -> list[str]:
        """Send records; return the ids of those that can never be stored."""
        rejected: list[str] = await call(
            self.recorder, "record", list(records), timeout_s=timeout_s, retry=True
        )
        return rejected

    def _count(self, result: SearchResult, degraded: tuple[str, ...]) -> None:
        self.searches += 1
        self.pairs_reused += result.tally.reused
        if degraded:
            self.degraded_searches += 1
            logger.warning("search degraded: %s", ", ".join(degraded))

    async def ping(self) -> bool:
        return True

    async def status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "searches": self.searches,
            "degraded_searches": self.degraded_searches,
            "pairs_reused": self.pairs_reused,
            "records_waiting": len(self.outbox),
            "records_sent": self.outbox.sent,
            "records_dropped": self.outbox.dropped,
            "scorer_down": self.scorer.breaker.is_open if self.scorer else None,
            "config_error": self.config_error,
            "search": self.defaults.model_dump(),
        }

    async def close(self) -> None:
        await self.outbox.close(FLUSH_S)
        if self.scorer:
            await self.scorer.breaker.close()


async def run_search(plan: SearchPlan, legs: Legs, score: Score | None) -> SearchResult:
    watch = Stopwatch()
    await legs.embed()
    watch.lap("embed")
    return await search(plan, legs.retrieve, score, watch)
