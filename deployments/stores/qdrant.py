"""Qdrant: one collection on a server for all corpora of all tenants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from qdrant_client import AsyncQdrantClient, models

from deployments.stores.protocol import (
    ENGINE_LEGS,
    CorpusSize,
    IndexedChunk,
    LegQuery,
    refuse_other_model,
    refuse_to_mix,
)
from deployments.stores.qdrant_collection import POINTS_A_PAGE, QdrantCollection
from deployments.stores.qdrant_filters import one_of
from deployments.stores.qdrant_points import (
    CHUNK_KEYS,
    asked_vector,
    corpus_filter,
    corpus_id,
    corpus_point,
    encoders_in,
    matching,
    query_filter,
    to_chunk,
    to_points,
)
from deployments.stores.ties import Scored, best
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import NotFound, Unavailable
from pipeline.legs import BM25, DENSE, LegHit
from pipeline.vectors import NO_ENCODERS, Encoders

# Wider than the graph's default of 100: depth 50 loses little of what an exact search finds.
BEAM = 256


class QdrantStore:
    """All corpora in one collection, told apart by payload. Any number of processes may use it.

    `dimension` is that of the vectors to write, the same for all corpora; None writes none. To
    replace a document takes several operations: for a moment a search may find chunks of both
    versions, and a document whose writing was cut short has no digest.
    """

    legs = ENGINE_LEGS["qdrant"]

    def __init__(
        self,
        connect: Callable[[], AsyncQdrantClient],
        collection: str,
        dimension: int | None,
        read_only: bool = False,
        encoders: Encoders = NO_ENCODERS,
    ) -> None:
        self._points = QdrantCollection(connect, collection)
        self._dimension = dimension
        self._read_only = read_only
        self._encoders = encoders

    async def upsert(self, corpus: CorpusKey, chunks: Sequence[IndexedChunk]) -> None:
        self._refuse_if_read_only()
        await self._ensure(corpus)
        points = to_points(corpus, chunks, self._dimension)
        await self._points.put(points)
        if points:
            # The old chunks go last: whatever fails before, what was stored is still there.
            documents = dict.fromkeys(each.chunk.document_id for each in chunks)
            new = models.HasIdCondition(has_id=[point.id for point in points])
            old = corpus_filter(corpus, [one_of("document_id", documents)], must_not=[new])
            await self._points.remove(old)

    async def delete(self, corpus: CorpusKey, document_ids: Sequence[str]) -> int:
        self._refuse_if_read_only()
        chosen = corpus_filter(corpus, [one_of("document_id", document_ids)])
        rows = self._points.scroll(chosen, ["document_id"])
        stored = {row["document_id"] async for row in rows}
        if stored:
            await self._points.remove(chosen)
        else:
            await self._encoders_of(corpus)
        return len(stored)

    async def search(self, corpus: CorpusKey, query: LegQuery) -> list[LegHit]:
        refuse_other_model(await self._encoders_of(corpus), query)
        if query.vector is not None:
            await self._points.check_dimension(len(query.vector))
        vector = asked_vector(query)
        if vector is None:
            return []
        chosen, params = query_filter(corpus, query), search_params(corpus, query.leg)

        async def ask(limit: int) -> list[Scored]:
            return await self._points.nearest(query.leg, vector, chosen, params, limit, CHUNK_KEYS)

        return [LegHit(to_chunk(row), score) for score, row in await best(query.k, ask)]

    async def fetch(self, corpus: CorpusKey, document_id: str) -> list[Chunk]:
        chosen = corpus_filter(corpus, [matching("document_id", document_id)])
        chunks = [to_chunk(row) async for row in self._points.scroll(chosen, CHUNK_KEYS)]
        if not chunks:
            await self._encoders_of(corpus)
        return sorted(chunks, key=lambda chunk: (chunk.chunk_index, chunk.id))

    async def digests(self, corpus: CorpusKey, document_ids: Sequence[str]) -> Mapping[str, str]:
        await self._encoders_of(corpus)
        chosen = corpus_filter(corpus, [one_of("document_id", document_ids)])
        keys = ["document_id", "document_digest", "document_chunks"]
        versions: dict[str, list[tuple[str, int]]] = {}
        async for row in self._points.scroll(chosen, keys):
            version = (row["document_digest"], row["document_chunks"])
            versions.setdefault(row["document_id"], []).append(version)
        return {
            document: found[0][0]
            for document, found in versions.items()
            if len(set(found)) == 1 and len(found) == found[0][1]
        }

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]:
        """The engine sorts no text, so each call reads through the first chunk of every
        document."""
        await self._encoders_of(corpus)
        first: dict[str, str | None] = {}
        leading = corpus_filter(corpus, [matching("leads", True)])
        async for row in self._points.scroll(leading, ["document_id", "title"]):
            if row["document_id"] > after:
                first[row["document_id"]] = row.get("title")
            if len(first) >= limit + POINTS_A_PAGE:  # so that memory is bounded
                first = dict(sorted(first.items())[:limit])
        return sorted(first.items())[:limit]

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        await self._encoders_of(corpus)
        leading = corpus_filter(corpus, [matching("leads", True)])
        documents = await self._points.count(leading)
        return CorpusSize(documents, await self._points.count(corpus_filter(corpus)))

    async def corpora(self, tenant: str) -> list[str]:
        own = models.Filter(must=[matching("corpus_of", tenant)])
        try:
            return sorted([row["name"] async for row in self._points.scroll(own, ["name"])])
        except NotFound:  # nothing was ever written
            return []

    async def optimise(self, corpus: CorpusKey) -> None:
        """The server looks after its indexes itself."""
        self._refuse_if_read_only()
        await self._encoders_of(corpus)

    async def drop(self, corpus: CorpusKey) -> None:
        self._refuse_if_read_only()
        await self._encoders_of(corpus)
        await self._points.remove(corpus_filter(corpus))
        # Last: a drop that was cut short leaves a corpus that can be dropped again.
        marker = models.HasIdCondition(has_id=[corpus_id(corpus)])
        await self._points.remove(models.Filter(must=[marker]))

    async def _encoders_of(self, corpus: CorpusKey) -> Encoders:
        """Return the models of a corpus; NotFound for one that does not exist."""
        payload = await self._points.get(corpus_id(corpus))
        if payload is None:
            raise NotFound("there is no such corpus", "corpus")
        return encoders_in(payload)

    async def _ensure(self, corpus: CorpusKey) -> None:
        try:
            refuse_to_mix(await self._encoders_of(corpus), self._encoders)
        except NotFound:
            await self._points.ensure(self._dimension)
            await self._points.check_dimension(self._dimension)
            await self._points.put([corpus_point(corpus, self._encoders)])
        else:
            await self._points.check_dimension(self._dimension)

    def _refuse_if_read_only(self) -> None:
        if self._read_only:
            raise Unavailable("this store only reads")


def search_params(corpus: CorpusKey, leg: str) -> models.SearchParams | None:
    """A word's rarity is that in its own corpus, not that in the whole collection."""
    if leg == DENSE:
        return models.SearchParams(hnsw_ef=BEAM)
    if leg == BM25:
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus_filter(corpus)))
    return None
