"""One collection on a Qdrant server, and what is asked of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import grpc
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from deployments.stores.qdrant_points import (
    GRAPHS,
    INDEXES,
    Vector,
    dense_vectors,
    sparse_vectors,
)
from pipeline.errors import NotFound, Unavailable
from pipeline.legs import DENSE

log = logging.getLogger(__name__)
T = TypeVar("T")
Payload = Mapping[str, Any]

# What the client raises; a ValueError is its local mode's, and of its own checks.
ENGINE_ERRORS = (ApiException, QdrantException, grpc.RpcError, ValueError, OSError)

# A request's size is bounded on the server, to 32 MB by default.
POINTS_A_REQUEST = 256
POINTS_A_PAGE = 1_000

# Present on most of the replicas: with writes that wait for as many, a read follows its write.
CONSISTENCY = models.ReadConsistencyType.QUORUM
ORDERING = models.WriteOrdering.MEDIUM

TIMEOUT_S = 60


class QdrantCollection:
    """A collection by its name. Every method but `ensure` raises NotFound where there is none,
    and so no corpus either; what the client raises comes out as Unavailable."""

    def __init__(self, connect: Callable[[], AsyncQdrantClient], name: str) -> None:
        self.name = name
        self._connect = connect
        self._client: AsyncQdrantClient | None = None
        self._dimension: int | None = None

    async def ensure(self, dimension: int | None) -> None:
        """Create it with its indexes, unless it is there; its dense vectors have `dimension`
        numbers, None for none."""
        client = self._connected()
        try:
            if await client.collection_exists(self.name):
                return
            await client.create_collection(
                self.name,
                vectors_config=dense_vectors(dimension),
                sparse_vectors_config=sparse_vectors(),
                hnsw_config=GRAPHS,
            )
            for key, schema in INDEXES.items():
                await client.create_payload_index(self.name, key, schema, wait=True)
        except ENGINE_ERRORS as error:
            if not await self._exists():  # else another writer was first
                raise _unavailable(error) from error

    async def check_dimension(self, dimension: int | None) -> None:
        """Raise Unavailable if dense vectors of a dimension do not fit; None stands for none."""
        if self._dimension is None:
            info = await self._ask(lambda client: client.get_collection(self.name))
            vectors = info.config.params.vectors
            dense = vectors.get(DENSE) if isinstance(vectors, Mapping) else None
            self._dimension = None if dense is None else dense.size
        if self._dimension != dimension:
            raise Unavailable(
                f"the collection has vectors of dimension {self._dimension}, the model of "
                f"{dimension}"
            )

    async def put(self, points: Sequence[models.PointStruct]) -> None:
        """Write points; they replace those of the same ids."""
        for start in range(0, len(points), POINTS_A_REQUEST):
            await self._ask(self._putting(points[start : start + POINTS_A_REQUEST]))

    async def remove(self, chosen: models.Filter) -> None:
        selector = models.FilterSelector(filter=chosen)
        await self._ask(
            lambda client: client.delete(self.name, selector, wait=True, ordering=ORDERING)
        )

    async def get(self, point_id: str) -> Payload | None:
        """Return a point's payload, None where there is no such point."""
        points = await self._ask(
            lambda client: client.retrieve(self.name, [point_id], consistency=CONSISTENCY)
        )
        return (points[0].payload or {}) if points else None

    async def scroll(self, chosen: models.Filter, keys: list[str]) -> AsyncIterator[Payload]:
        """Yield these keys of all payloads, page by page, in no order."""
        page: Any = None
        while True:
            records, page = await self._ask(self._scrolling(chosen, keys, page))
            for record in records:
                yield record.payload or {}
            if page is None:
                return

    async def count(self, chosen: models.Filter) -> int:
        answer = await self._ask(
            lambda client: client.count(self.name, count_filter=chosen, exact=True)
        )
        return answer.count

    async def nearest(
        self,
        leg: str,
        vector: Vector,
        chosen: models.Filter,
        params: models.SearchParams | None,
        limit: int,
        keys: list[str],
    ) -> list[tuple[float, Payload]]:
        """Return the scores and payloads of the points nearest to a vector, best first."""
        answer = await self._ask(
            lambda client: client.query_points(
                self.name,
                query=vector,
                using=leg,
                query_filter=chosen,
                search_params=params,
                limit=limit,
                with_payload=keys,
                consistency=CONSISTENCY,
            )
        )
        return [(point.score, point.payload or {}) for point in answer.points]

    def _putting(
        self, points: Sequence[models.PointStruct]
    ) -> Callable[[AsyncQdrantClient], Awaitable[Any]]:
        return lambda client: client.upsert(self.name, list(points), wait=True, ordering=ORDERING)

    def _scrolling(
        self, chosen: models.Filter, keys: list[str], page: Any
    ) -> Callable[[AsyncQdrantClient], Awaitable[tuple[list[Any], Any]]]:
        return lambda client: client.scroll(
            self.name,
            scroll_filter=chosen,
            limit=POINTS_A_PAGE,
            offset=page,
            with_payload=keys,
            consistency=CONSISTENCY,
        )

    async def _ask(self, question: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        try:
            return await question(self._connected())
        except ENGINE_ERRORS as error:
            if await self._exists():
                raise _unavailable(error) from error
            self._dimension = None  # the next of this name may have another
            raise NotFound("there is no such corpus", "corpus") from error

    async def _exists(self) -> bool:
        try:
            return await self._connected().collection_exists(self.name)
        except ENGINE_ERRORS as error:
            raise _unavailable(error) from error

    def _connected(self) -> AsyncQdrantClient:
        if self._client is None:  # made on the loop that it will be used on
            self._client = self._connect()
        return self._client


def connect_to(uri: str, api_key: str | None, grpc_port: int | None) -> AsyncQdrantClient:
    """Return a client of a server, over HTTP, or gRPC where its port is given."""
    return AsyncQdrantClient(
        url=uri,
        api_key=api_key,
        prefer_grpc=grpc_port is not None,
        grpc_port=grpc_port or 0,
        timeout=TIMEOUT_S,
        check_compatibility=False,  # it would ask the server before anyone asks us
    )


def _unavailable(error: Exception) -> Unavailable:
    log.error("Qdrant failed", exc_info=error)
    return Unavailable("the index engine failed")
