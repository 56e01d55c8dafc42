"""The legs of one request, as the pipeline sees them: callables over variants of its query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deployments.budget import left_s, leg_share_s
from deployments.handles import Handle, call
from deployments.planning import all_of, filter_of, sources_of
from deployments.search_options import SearchOptions
from deployments.stores.protocol import LegQuery
from pipeline.documents import CorpusKey
from pipeline.errors import InvalidInput, NotFound, OnepassError, Overloaded
from pipeline.filters import Filter
from pipeline.legs import BM25, DENSE, SPARSE, LegResult, Variant
from pipeline.sources import SourceRules
from pipeline.vectors import Embedded


@dataclass(frozen=True, slots=True)
class LegRequest:
    """What to retrieve; `deadline` is on the monotonic clock, `legs` None means all."""

    corpus: CorpusKey
    filter: Filter | None
    deadline: float
    legs: tuple[str, ...] | None = None
    sources: tuple[SourceRules, ...] = ()


@dataclass(frozen=True, slots=True)
class Legs:
    """Asks every leg of every variant for any depth, with the vectors that `embed` made.

    `sparse` says that the embedder makes learned-sparse vectors too.
    """

    retrieval: Handle
    embedder: Handle | None
    request: LegRequest
    timeout_ms: int
    sparse: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The legs that are asked for and there."""
        there = (BM25,) if self.embedder is None else (DENSE, BM25)
        there = (*there, SPARSE) if self.embedder and self.sparse else there
        asked = self.request.legs
        return there if asked is None else tuple(leg for leg in there if leg in asked)

    def in_corpus(self, corpus: CorpusKey, options: SearchOptions) -> Legs:
        """Return the same legs over another corpus, narrowed by its own options as well."""
        own = self.request
        sources = dict.fromkeys((*own.sources, *sources_of(options, {})))
        request = replace(
            own,
            corpus=corpus,
            filter=all_of(own.filter, filter_of(options, {})),
            sources=tuple(sources),
        )
        return replace(self, request=request)

    async def embed(self, variants: Sequence[Variant]) -> tuple[Variant, ...]:
        """Embed all variants in one call, before anything is retrieved.

        A failure is that of the legs that search by vectors. A hypothetical document is embedded
        as what it is.
        """
        if self.embedder is None or not {DENSE, SPARSE} & set(self.names):
            return tuple(variants)
        queries = [variant for variant in variants if variant.kind != "hyde"]
        passages = [variant for variant in variants if variant.kind == "hyde"]
        try:
            embedded: Embedded = await call(
                self.embedder,
                "embed_queries",
                [variant.text for variant in queries],
                [variant.text for variant in passages],
                timeout_s=self._time_s(),
                retry=True,
            )
        except Overloaded:
            raise
        except OnepassError as error:
            return tuple(replace(variant, error=error.message) for variant in variants)
        made = with_vectors((*queries, *passages), embedded)
        return tuple(sorted(made, key=lambda variant: variant.number))

    async def retrieve(self, variants: Sequence[Variant], depth: int) -> list[LegResult]:
        """Ask every leg of every variant for `depth` hits. A part that fails is a leg's error;
        NotFound, for a corpus that does not exist, InvalidInput and Overloaded are raised."""
        results: list[LegResult] = []
        queries: list[tuple[int, LegQuery]] = []
        for variant in variants:
            for leg in self.names:
                if leg not in variant.legs:
                    continue
                if not has_vector(leg, variant):
                    results.append(LegResult(leg, variant.number, depth, error=variant.error))
                else:
                    queries.append((variant.number, self._query(leg, variant, depth)))
        return [*results, *(await self._search(queries) if queries else ())]

    def _query(self, leg: str, variant: Variant, depth: int) -> LegQuery:
        request = self.request
        query = LegQuery(BM25, depth, variant.text, None, request.filter, request.sources)
        if leg == BM25:
            return query
        encoders, text = variant.encoders, ""
        if leg == DENSE:
            return replace(query, leg=leg, text=text, vector=variant.vector, model=encoders.dense)
        return replace(
            query, leg=leg, text=text, sparse_vector=variant.sparse, model=encoders.sparse
        )

    async def _search(self, queries: Sequence[tuple[int, LegQuery]]) -> list[LegResult]:
        try:
            results: list[LegResult] = await call(
                self.retrieval,
                "search",
                self.request.corpus,
                list(queries),
                timeout_s=self._time_s(),
                retry=True,
                tell_time=True,
            )
        except (InvalidInput, NotFound, Overloaded):
            raise
        except OnepassError as error:
            return [
                LegResult(query.leg, number, query.k, error=error.message)
                for number, query in queries
            ]
        return results

    def _time_s(self) -> float:
        return leg_share_s(left_s(self.request.deadline), self.timeout_ms / 1e3)


def with_vectors(variants: Sequence[Variant], embedded: Embedded) -> list[Variant]:
    return [
        replace(variant, vector=dense, sparse=sparse, encoders=embedded.encoders)
        for variant, (dense, sparse) in zip(variants, embedded.rows, strict=True)
    ]


def has_vector(leg: str, variant: Variant) -> bool:
    """Tell whether a variant has what a leg searches by."""
    return {DENSE: variant.vector, SPARSE: variant.sparse, BM25: variant.text}[leg] is not None
