"""Everything that a Composer replica can call, handed to the pipeline as plain callables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.budget import RESERVE_S, left_s
from deployments.handles import Handle
from deployments.legs import LegRequest, Legs
from deployments.planning import filter_of, sources_of
from deployments.providers.chat import Chat
from deployments.providers.web import WebSearch
from deployments.scorers import Scorers
from deployments.search_options import SearchOptions
from pipeline.chain import Fallback, Ports, SearchPlan
from pipeline.context import CountTokens
from pipeline.documents import Chunk, CorpusKey
from pipeline.expansion import Generate
from pipeline.fusion import RRF_K
from pipeline.hits import Hit, LegEntry
from pipeline.legs import Variant
from pipeline.recall import failed_legs, fused

logger = logging.getLogger(__name__)

HTTP = "http"
COUNT_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Reach:
    """Handles of other deployments and clients of services outside; None is not there."""

    retrieval: Handle
    embedder: Handle | None
    scorers: Scorers | None
    chat: Chat | None
    web: WebSearch | None
    leg_timeout_ms: int

    def ports(
        self,
        plan: SearchPlan,
        options: SearchOptions,
        request: Mapping[str, Any],
        corpus: CorpusKey,
        deadline: float,
    ) -> Ports:
        """Return what one search may call; `deadline` is on the monotonic clock."""
        legs = Legs(
            self.retrieval,
            self.embedder,
            LegRequest(
                corpus,
                filter_of(options, request),
                deadline,
                None if options.legs is None else tuple(options.legs),
                sources_of(options, request),
            ),
            self.leg_timeout_ms,
        )
        return Ports(
            retrieve=legs.retrieve,
            embed=legs.embed,
            score=self.scorers.for_search(corpus.tenant, deadline) if self.scorers else None,
            generate=self._generate(deadline),
            fallback=self._fallback(plan, legs),
            count=self._count(deadline) if options.context.count == "scorer" else None,
        )

    def _generate(self, deadline: float) -> Generate | None:
        chat = self.chat
        if chat is None:
            return None

        async def generate(messages: Sequence[Mapping[str, str]]) -> str:
            return await chat.generate(messages, left_s(deadline, reserve_s=RESERVE_S))

        return generate

    def _fallback(self, plan: SearchPlan, legs: Legs) -> Fallback | None:
        source = plan.correction.fallback if plan.correction else None
        if source is None:
            return None
        if source == HTTP:
            return self._web_fallback(legs.request.deadline)
        name = source.partition(":")[2]
        elsewhere = legs.in_corpus(CorpusKey(legs.request.corpus.tenant, name))
        return corpus_fallback(elsewhere, plan)

    def _web_fallback(self, deadline: float) -> Fallback | None:
        web = self.web
        if web is None:
            return None

        async def search(query: str, variants: Sequence[Variant], depth: int) -> Sequence[Hit]:
            chunks = await web.search(query, depth, left_s(deadline, reserve_s=RESERVE_S))
            return [web_hit(chunk, rank) for rank, chunk in enumerate(chunks, start=1)]

        return search

    def _count(self, deadline: float) -> CountTokens | None:
        local = self.scorers.local if self.scorers else None
        if local is None:
            return None

        async def count(texts: Sequence[str]) -> Sequence[int]:
            return await local.count_tokens(texts, left_s(deadline, COUNT_TIMEOUT_S))

        return count


def corpus_fallback(legs: Legs, plan: SearchPlan) -> Fallback:
    """Search another corpus with the vectors that are there, under the same filter."""

    async def search(query: str, variants: Sequence[Variant], depth: int) -> Sequence[Hit]:
        results = await legs.retrieve(variants, depth)
        for leg in failed_legs(results):
            logger.warning("leg %s of the fallback corpus failed", leg)
        return fused(plan.recalling, variants, results)[:depth]

    return search


def web_hit(chunk: Chunk, rank: int) -> Hit:
    """A text from outside; its place there is all that is known of it."""
    contribution = 1.0 / (RRF_K + rank)
    return Hit(
        id=chunk.id,
        document_id=chunk.document_id,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        title=chunk.title,
        source=chunk.source,
        legs=(LegEntry(HTTP, 0, rank, None, contribution),),
        fusion_score=contribution,
    )
