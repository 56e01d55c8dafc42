"""The Composer deployment: runs the chain on the other deployments."""

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
from deployments.logs import join_serve_log
from deployments.options import ConfigError
from deployments.outbox import Outbox
from deployments.planning import plan_search, resolve
from deployments.providers.chat import Chat
from deployments.providers.http import Http
from deployments.providers.rerankers import RemoteScorer
from deployments.providers.web import WebSearch
from deployments.ranking import RerankAnswer, rerank_texts
from deployments.reach import Reach
from deployments.scorers import make_scorers, scorer_status, thresholds_by_model
from deployments.shadows import Shadows, served_of
from pipeline.chain import SearchResult, search
from pipeline.documents import CorpusKey
from pipeline.errors import DeadlineExceeded, InvalidInput, OnepassError
from tracker.records import ComparisonRecord, RetrievalRecord

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
        # A shadow that hangs must not keep connections from what is served.
        self.http, self.shadow_http = Http(), Http()
        self.scorers = make_scorers(args, scorer, self.http)
        self.thresholds_by_model = thresholds_by_model(args)
        self.reach = Reach(
            retrieval,
            embedder,
            self.scorers,
            Chat(args.chat, self.http) if args.chat else None,
            WebSearch(args.web_search, self.http) if args.web_search else None,
            args.index.leg_timeout_ms,
            args.parts.sparse_model,
        )
        shadows = [RemoteScorer(one, self.shadow_http) for one in args.shadow]
        self.shadows = Shadows(shadows, self._send_comparisons)
        self.recorder = recorder
        self.outbox = Outbox(self._send_records, args.tracker.outbox_rows)
        self.outbox.start()
        # Serve awaits this at shutdown; Python's collector, which looks at the class, does not.
        self.__del__ = self.close
        self.searches = self.degraded_searches = self.pairs_reused = self.variants_drifted = 0

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
        options = resolve(self.defaults, request, self.args.parts)
        plan = plan_search(options, request, self.thresholds_by_model)
        asked = Asked(
            retrieval_id=retrieval_id,
            corpus=CorpusKey(tenant, request["corpus"]),
            query=plan.query,
            retrieved_at=datetime.now(timezone.utc),
        )
        ports = self.reach.ports(plan, options, self.defaults, request, asked.corpus, deadline)
        try:
            result = await asyncio.wait_for(search(plan, ports), left_s(deadline))
        except asyncio.TimeoutError:
            raise DeadlineExceeded("the search did not finish in time") from None
        tracked = await self._record(retrieval_record(result, asked), deadline)
        degraded = result.degraded + (() if tracked else ("tracking",))
        self._count(result, degraded)
        self.shadows.compare(served_of(result, retrieval_id, asked.corpus, asked.retrieved_at))
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
        if self.scorers is None:
            raise InvalidInput("reranking needs a scorer, and none is configured")
        deadline = time.monotonic() + remaining_ms / 1e3
        score = self.scorers.for_rerank(tenant, deadline, truncation)
        return await rerank_texts(query, documents, score)

    async def describe(self) -> dict[str, Any]:
        """The model that scores, and its window (null for a remote one)."""
        if self.scorers is None:
            raise InvalidInput("no scorer is configured")
        if self.scorers.local is None:
            return {"model": self.scorers.model, "max_tokens": None}
        return await self.scorers.local.describe()

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

    async def _send_comparisons(self, records: Sequence[ComparisonRecord]) -> Sequence[str]:
        unknown: list[str] = await call(
            self.recorder,
            "record_comparisons",
            list(records),
            timeout_s=RECORD_TIMEOUT_S,
            retry=True,
        )
        return unknown

    def _count(self, result: SearchResult, degraded: tuple[str, ...]) -> None:
        self.searches += 1
        self.pairs_reused += result.tally.reused
        self.variants_drifted += result.drifted
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
            "variants_drifted": self.variants_drifted,
            "shadows_compared": self.shadows.compared,
            "shadows_dropped": self.shadows.dropped,
            **scorer_status(self.scorers),
            "config_error": self.config_error,
            "search": self.defaults.model_dump(),
        }

    async def close(self) -> None:
        await self.shadows.close()
        await self.outbox.close(FLUSH_S)
        if self.scorers:
            await self.scorers.close()
        await self.http.close()
        await self.shadow_http.close()
