"""LanceDB: an index embedded in each process, on a shared folder or an object store."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import lancedb
import pyarrow as pa
from lancedb.index import FTS
from lancedb.query import AsyncFTSQuery, AsyncVectorQuery
from lancedb.table import AsyncTable

from deployments.stores.lance_filters import filter_sql, one_of
from deployments.stores.lance_listing import list_documents, measure
from deployments.stores.lance_rows import (
    CHUNK_COLUMNS,
    corpus_of,
    encoders_of,
    schema,
    table_name,
    table_prefix,
    to_chunk,
    to_rows,
    vector_dimension,
)
from deployments.stores.lance_sources import sources_sql
from deployments.stores.protocol import (
    ENGINE_LEGS,
    CorpusSize,
    IndexedChunk,
    LegQuery,
    refuse_other_model,
    refuse_to_mix,
)
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import NotFound, Unavailable
from pipeline.legs import BM25, DENSE, LegHit
from pipeline.vectors import NO_ENCODERS, Encoders

log = logging.getLogger(__name__)
T = TypeVar("T")

# Opening a table costs one look at the store; this many spare it, and bound the memory.
MAX_HANDLES = 1_000

# What the engine's binding raises. A missing table is a ValueError, told by its message.
ENGINE_ERRORS = (RuntimeError, ValueError, OSError, pa.ArrowException)

# Positions would only serve phrase queries, which no leg asks.
TEXT_INDEX = FTS(
    with_position=False, language="English", stem=True, remove_stop_words=True, ascii_folding=True
)

# The engine cuts equal scores at its limit in an order of its own. So a few more are asked for,
# and many more where the cut still falls among equals; past the bound its order stands.
TIE_MARGIN = 16
TIE_FACTOR = 8
TIE_BOUND = 10_000
CREATED_BY_ANOTHER = ("already exists", "commit conflict")


class LanceStore:
    """One table for each corpus. Any number of processes may read while others write.

    `dimension` is that of the vectors to write; None writes none, and a corpus without them has
    no dense leg. A read-only store needs none, and refuses to write. Integers in metadata beyond
    64 bits come back as floats, and keys sorted. Rows that the text index does not cover yet are
    found all the same, but scored by fresher statistics of the corpus than the rows it covers,
    so there equal texts may differ a little.
    """

    legs = ENGINE_LEGS["lancedb"]

    def __init__(
        self,
        uri: str,
        dimension: int | None,
        storage_options: Mapping[str, str] | None = None,
        read_only: bool = False,
        encoders: Encoders = NO_ENCODERS,
    ) -> None:
        self._uri = uri
        self._encoders = encoders
        self._dimension = dimension
        self._storage_options = dict(storage_options or {})
        self._read_only = read_only
        self._connection: lancedb.AsyncConnection | None = None
        self._tables: dict[CorpusKey, AsyncTable] = {}

    async def upsert(self, corpus: CorpusKey, chunks: Sequence[IndexedChunk]) -> None:
        self._refuse_if_read_only()
        merge = partial(self._merge, to_rows(chunks, self._dimension))
        try:
            await self._ask(corpus, merge)
        except NotFound:
            await self._create(corpus)
            await self._ask(corpus, merge)

    async def delete(self, corpus: CorpusKey, document_ids: Sequence[str]) -> int:
        self._refuse_if_read_only()
        stored = await self.digests(corpus, document_ids)
        if stored:
            await self._ask(corpus, lambda table: table.delete(one_of("document_id", stored)))
        return len(stored)

    async def search(self, corpus: CorpusKey, query: LegQuery) -> list[LegHit]:
        search = LEGS[query.leg]
        return await self._ask(corpus, partial(search, query))

    async def fetch(self, corpus: CorpusKey, document_id: str) -> list[Chunk]:
        where = one_of("document_id", [document_id])
        rows = await self._ask(corpus, partial(_select, CHUNK_COLUMNS, where))
        return sorted(map(to_chunk, rows), key=lambda chunk: (chunk.chunk_index, chunk.id))

    async def digests(self, corpus: CorpusKey, document_ids: Sequence[str]) -> Mapping[str, str]:
        where = one_of("document_id", document_ids)
        columns = ["document_id", "document_digest"]
        rows = await self._ask(corpus, partial(_select, columns, where))
        return {row["document_id"]: row["document_digest"] for row in rows}

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]:
        return await self._ask(corpus, partial(list_documents, after, limit))

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        return await self._ask(corpus, measure)

    async def corpora(self, tenant: str) -> list[str]:
        prefix = table_prefix(tenant)
        return sorted(
            corpus_of(name) for name in await self._table_names() if name.startswith(prefix)
        )

    async def optimise(self, corpus: CorpusKey) -> None:
        self._refuse_if_read_only()
        await self._ask(corpus, lambda table: table.optimize())

    async def drop(self, corpus: CorpusKey) -> None:
        self._refuse_if_read_only()
        self._tables.pop(corpus, None)
        connection = await self._connect()
        with _engine_errors(corpus):
            await connection.drop_table(table_name(corpus))

    async def _ask(self, corpus: CorpusKey, question: Callable[[AsyncTable], Awaitable[T]]) -> T:
        table = await self._open(corpus)
        try:
            return await question(table)
        except ENGINE_ERRORS as error:
            self._tables.pop(corpus, None)
            await self._open(corpus)  # raises NotFound if another process dropped the corpus
            raise _unavailable(error) from error

    async def _open(self, corpus: CorpusKey) -> AsyncTable:
        """Return the corpus's table. A handle follows its table's changes, a new table of the
        same name included."""
        if corpus not in self._tables:
            connection = await self._connect()
            if len(self._tables) >= MAX_HANDLES:
                self._tables.clear()
            with _engine_errors(corpus):
                self._tables[corpus] = await connection.open_table(table_name(corpus))
        return self._tables[corpus]

    async def _create(self, corpus: CorpusKey) -> None:
        connection = await self._connect()
        with _engine_errors(corpus):
            try:
                await connection.create_table(
                    table_name(corpus), schema=schema(self._dimension, self._encoders)
                )
            except (ValueError, RuntimeError) as error:
                # Another writer was first, or is at it. (exist_ok compares schemas, and takes the
                # JSON column that it has stored for a different one.)
                if not any(sign in str(error) for sign in CREATED_BY_ANOTHER):
                    raise

    async def _merge(self, rows: pa.Table, table: AsyncTable) -> None:
        stored = await table.schema()
        refuse_to_mix(encoders_of(stored), self._encoders)
        _refuse_other_dimension(stored, self._dimension)
        await _ensure_text_index(table)
        if not rows.num_rows:
            return
        documents = dict.fromkeys(rows["document_id"].to_pylist())
        await (
            table.merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .when_not_matched_by_source_delete(one_of("document_id", documents))
            .execute(rows, on_bad_vectors="null")
        )

    async def _table_names(self) -> list[str]:
        connection = await self._connect()
        names: list[str] = []
        token = None
        with _engine_errors():
            while True:
                page = await connection.list_tables(page_token=token)
                names += page.tables
                token = page.page_token
                if not token:
                    return names

    async def _connect(self) -> lancedb.AsyncConnection:
        if self._connection is None:
            with _engine_errors():
                self._connection = await lancedb.connect_async(
                    self._uri,
                    # Zero: every read looks for the latest version first.
                    read_consistency_interval=timedelta(0),
                    storage_options=self._storage_options,
                )
        return self._connection

    def _refuse_if_read_only(self) -> None:
        if self._read_only:
            raise Unavailable("this store only reads")


@contextmanager
def _engine_errors(corpus: CorpusKey | None = None) -> Iterator[None]:
    try:
        yield
    except ENGINE_ERRORS as error:
        if corpus is not None and f"Table '{table_name(corpus)}' was not found" in str(error):
            raise NotFound("there is no such corpus", "corpus") from error
        raise _unavailable(error) from error


def _unavailable(error: Exception) -> Unavailable:
    log.error("LanceDB failed", exc_info=error)
    return Unavailable("the index engine failed")


def _refuse_other_dimension(stored: pa.Schema, dimension: int | None) -> None:
    found = vector_dimension(stored)
    if found != dimension:
        raise Unavailable(f"the corpus has vectors of dimension {found}, the model of {dimension}")


async def _has_text_index(table: AsyncTable) -> bool:
    return any(index.columns == ["body"] for index in await table.list_indices())


async def _ensure_text_index(table: AsyncTable) -> None:
    """Make the index before the first row, so that rows never stand without one."""
    if await _has_text_index(table):
        return
    try:
        await table.create_index("body", config=TEXT_INDEX)
    except RuntimeError:
        # Of two writers that create a corpus at once, one is told of a conflict.
        if not await _has_text_index(table):
            raise


async def _search_dense(query: LegQuery, table: AsyncTable) -> list[LegHit]:
    assert query.vector is not None  # LegQuery's construction sees to it
    stored = await table.schema()
    refuse_other_model(encoders_of(stored), query)
    _refuse_other_dimension(stored, len(query.vector))
    if not query.vector.any():
        return []
    asked = table.query().nearest_to(query.vector).column("vector").distance_type("cosine")
    return await _best(asked, query, lambda row: 1.0 - row["_distance"], "_distance")


async def _search_text(query: LegQuery, table: AsyncTable) -> list[LegHit]:
    asked = table.query().nearest_to_text(query.text, columns=["body"])
    try:
        return await _best(asked, query, lambda row: row["_score"], "_score")
    except ENGINE_ERRORS:
        # A corpus that is being created, or whose creation was cut short, has no rows either.
        if await _has_text_index(table):
            raise
        return []


LEGS = {DENSE: _search_dense, BM25: _search_text}


async def _best(
    asked: AsyncVectorQuery | AsyncFTSQuery,
    query: LegQuery,
    score: Callable[[Mapping[str, Any]], float],
    column: str,
) -> list[LegHit]:
    """Return the k best, ties by id. The engine applies the condition before its limit."""
    conditions = [] if query.filter is None else [filter_sql(query.filter)]
    conditions += map(sources_sql, query.sources)
    if conditions:
        asked = asked.where(" AND ".join(conditions))
    asked = asked.select([*CHUNK_COLUMNS, column])
    limit = query.k + TIE_MARGIN
    while True:
        rows = await asked.limit(limit).to_list()
        rows.sort(key=lambda row: (-score(row), row["id"]))
        cut_among_equals = len(rows) == limit and score(rows[query.k - 1]) == score(rows[-1])
        if not cut_among_equals or limit >= TIE_BOUND:
            return [LegHit(to_chunk(row), score(row)) for row in rows[: query.k]]
        limit = min(limit * TIE_FACTOR, TIE_BOUND)


async def _select(columns: list[str], where: str, table: AsyncTable) -> list[dict[str, Any]]:
    return await table.query().where(where).select(columns).to_list()
