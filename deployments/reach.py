"""Everything that a Composer replica can call, handed to the pipeline as plain callables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployments.budget import RESERVE_S, left_s, leg_share_s
from deployments.handles import Handle
from deployments.legs import LegRequest, Legs
from deployments.planning import filter_of, sources_of
from deployments.providers.chat import Chat
from deployments.providers.web import WebSearch
from deployments.scorers import Scorers
from deployments.search_options import SearchArgs, SearchOptions
from pipeline.chain import Fallback, Ports, SearchPlan
from pipeline.context import CountTokens
from pipeline.corrective import Found
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import Overloaded, Unavailable
from pipeline.expansion import Generate
from pipeline.fusion import RRF_K, hit_of
from pipeline.hits import Hit, LegEntry
from pipeline.legs import Variant
from pipeline.recall import failed_legs, fused, search_variants
from pipeline.scoring import Pair, Score, ScoreAnswer

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
    sparse: bool = False

    def ports(
        self,
        plan: SearchPlan,
        options: SearchOptions,
        defaults: SearchArgs,
        request: Mapping[str, Any],
        corpus: CorpusKey,
        deadline: float,
    ) -> Ports:
        """Return what one search may call; `deadline` is on the monotonic clock, `defaults` say
        what narrows a search of another corpus."""
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
            self.sparse,
        )
        return Ports(
            retrieve=legs.retrieve,
            embed=legs.embed,
            score=self._score(options, corpus.tenant, deadline),
            generate=self._generate(deadline),
            fallback=self._fallback(plan, legs, defaults),
            count=self._count(deadline) if options.context.count == "scorer" else None,
        )

    def _generate(self, deadline: float) -> Generate | None:
        chat = self.chat
        if chat is None:
            return None

        async def generate(messages: Sequence[Mapping[str, str]]) -> str:
            return await chat.generate(messages, left_s(deadline, reserve_s=RESERVE_S))

        return generate

    def _score(self, options: SearchOptions, tenant: str, deadline: float) -> Score | None:
        if self.scorers is None:
            return None
        score = self.scorers.for_search(tenant, deadline)
        return degrading(score) if options.on_overload == "degrade" else score

    def _fallback(self, plan: SearchPlan, legs: Legs, defaults: SearchArgs) -> Fallback | None:
        source = plan.correction.fallback if plan.correction else None
        if source is None:
            return None
        if source == HTTP:
            return self._web_fallback(legs.request)
        asked = legs.request.corpus
        corpus = CorpusKey(asked.tenant, source.partition(":")[2])
        if corpus == asked:  # what is there was found already
            return None
        return corpus_fallback(legs.in_corpus(corpus, defaults.for_corpus(corpus.name)), plan)

    def _web_fallback(self, request: LegRequest) -> Fallback | None:
        web = self.web
        if web is None:
            return None

        async def search(query: str, variants: Sequence[Variant], depth: int) -> Found:
            left = left_s(request.deadline, reserve_s=RESERVE_S)
            chunks = await web.search(query, depth, left)
            allowed = [
                chunk
                for chunk in chunks
                if all(rules.allows(chunk.source) for rules in request.sources)
            ]
            return Found([web_hit(chunk, rank) for rank, chunk in enumerate(allowed, start=1)])

        return search

    def _count(self, deadline: float) -> CountTokens | None:
        local = self.scorers.local if self.scorers else None
        if local is None:
            return None

        async def count(texts: Sequence[str]) -> Sequence[int]:
            # What is left after counting must still make an answer.
            return await local.count_tokens(texts, leg_share_s(left_s(deadline), COUNT_TIMEOUT_S))

        return count


def corpus_fallback(legs: Legs, plan: SearchPlan) -> Fallback:
    """Search another corpus with the vectors that are there, under the same filter."""

    async def search(query: str, variants: Sequence[Variant], depth: int) -> Found:
        results = await search_variants(legs.retrieve, variants, depth)
        hits = fused(plan.recalling, variants, results)[:depth]
        failed = failed_legs(results)
        reason = f"legs of the fallback corpus failed: {', '.join(failed)}"
        return Found(hits, Unavailable(reason) if failed else None)

    return search


def degrading(score: Score) -> Score:
    """Take a full scorer for one that failed, so that the search answers without it."""

    async def scored(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        try:
            return await score(query, pairs)
        except Overloaded as error:
            raise Unavailable(error.message) from None

    return scored


def web_hit(chunk: Chunk, rank: int) -> Hit:
    """A text from outside; its place there is all that is known of it."""
    contribution = 1.0 / (RRF_K + rank)
    entry = LegEntry(HTTP, 0, rank, None, contribution)
    return replace(hit_of(chunk), legs=(entry,), fusion_score=contribution)
