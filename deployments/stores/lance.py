"""LanceDB: an index embedded in each process, on a shared folder or an object store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import lancedb
import pyarrow as pa
from lancedb.table import AsyncTable

from deployments.stores.lance_errors import (
    ENGINE_ERRORS,
    created_by_another,
    engine_errors,
    unavailable,
)
from deployments.stores.lance_filters import one_of
from deployments.stores.lance_indexes import add_indexes, ensure_text_index, merge_files
from deployments.stores.lance_listing import list_documents, measure
from deployments.stores.lance_rows import (
    CHUNK_COLUMNS,
    corpus_of,
    encoders_of,
    refuse_other_dimension,
    schema,
    table_name,
    table_prefix,
    to_chunk,
    to_rows,
)
from deployments.stores.lance_search import LEGS
from deployments.stores.protocol import (
    ENGINE_LEGS,
    CorpusSize,
    IndexedChunk,
    LegQuery,
    refuse_to_mix,
)
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import NotFound, Unavailable
from pipeline.legs import LegHit
from pipeline.vectors import NO_ENCODERS, Encoders

T = TypeVar("T")

# Below it an exact search of 384 dimensions takes no longer than the text leg.
ANN_MIN_ROWS = 10_000

# Opening a table costs one look at the store; this many spare it, and bound the memory.
MAX_HANDLES = 1_000


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
        ann_min_rows: int = ANN_MIN_ROWS,
    ) -> None:
        self._uri = uri
        self._encoders = encoders
        self._ann_min_rows = ann_min_rows
        self._dimension = dimension
        self._storage_options = dict(storage_options or {})
        self._read_only = read_only
        self._connection: lancedb.AsyncConnection | None = None
        self._tables: dict[CorpusKey, AsyncTable] = {}
        # Whoever merges files loses to a write of the same rows, with all the work.
        self._writing = asyncio.Lock()

    async def upsert(self, corpus: CorpusKey, chunks: Sequence[IndexedChunk]) -> None:
        self._refuse_if_read_only()
        merge = partial(self._merge, to_rows(chunks, self._dimension))
        async with self._writing:
            try:
                await self._ask(corpus, merge)
            except NotFound:
                await self._create(corpus)
                await self._ask(corpus, merge)

    async def delete(self, corpus: CorpusKey, document_ids: Sequence[str]) -> int:
        self._refuse_if_read_only()
        async with self._writing:
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
        async with self._writing:
            await self._ask(corpus, merge_files)
        await self._ask(corpus, partial(add_indexes, ann_min_rows=self._ann_min_rows))

    async def drop(self, corpus: CorpusKey) -> None:
        self._refuse_if_read_only()
        self._tables.pop(corpus, None)
        await self._open(corpus)  # an object store drops what is not there without a word
        connection = await self._connect()
        self._tables.pop(corpus, None)
        with engine_errors(corpus):
            await connection.drop_table(table_name(corpus))

    async def _ask(self, corpus: CorpusKey, question: Callable[[AsyncTable], Awaitable[T]]) -> T:
        table = await self._open(corpus)
        try:
            return await question(table)
        except ENGINE_ERRORS as error:
            self._tables.pop(corpus, None)
            await self._open(corpus)  # raises NotFound if another process dropped the corpus
            raise unavailable(error) from error

    async def _open(self, corpus: CorpusKey) -> AsyncTable:
        """Return the corpus's table. A handle follows its table's changes, a new table of the
        same name included."""
        if corpus not in self._tables:
            connection = await self._connect()
            if len(self._tables) >= MAX_HANDLES:
                self._tables.clear()
            with engine_errors(corpus):
                self._tables[corpus] = await connection.open_table(table_name(corpus))
        return self._tables[corpus]

    async def _create(self, corpus: CorpusKey) -> None:
        connection = await self._connect()
        with engine_errors(corpus):
            try:
                await connection.create_table(
                    table_name(corpus), schema=schema(self._dimension, self._encoders)
                )
            except (ValueError, RuntimeError) as error:
                # (exist_ok compares schemas, and takes the JSON column that it has stored for a
                # different one.)
                if not created_by_another(error):
                    raise

    async def _merge(self, rows: pa.Table, table: AsyncTable) -> None:
        stored = await table.schema()
        refuse_to_mix(encoders_of(stored), self._encoders)
        refuse_other_dimension(stored, self._dimension)
        await ensure_text_index(table)
        if rows.num_rows:
            await _replace_documents(rows, table)

    async def _table_names(self) -> list[str]:
        connection = await self._connect()
        names: list[str] = []
        token = None
        with engine_errors():
            while True:
                page = await connection.list_tables(page_token=token)
                names += page.tables
                token = page.page_token
                if not token:
                    return names

    async def _connect(self) -> lancedb.AsyncConnection:
        if self._connection is None:
            with engine_errors():
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


async def _replace_documents(rows: pa.Table, table: AsyncTable) -> None:
    """Replace all chunks of the rows' documents in one commit.

    To delete within the commit, the engine reads the whole table, which at 100,000 chunks takes
    ten times as long as the rest: so only where a document has chunks to lose.
    """
    theirs = one_of("document_id", dict.fromkeys(rows["document_id"].to_pylist()))
    lost = f"{theirs} AND NOT {one_of('id', rows['id'].to_pylist())}"
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    if not await table.count_rows(lost):
        await merge.execute(rows, on_bad_vectors="null")
        # Another writer may have stored more of a document meanwhile.
        if not await table.count_rows(lost):
            return
    await merge.when_not_matched_by_source_delete(theirs).execute(rows, on_bad_vectors="null")


async def _select(columns: list[str], where: str, table: AsyncTable) -> list[dict[str, Any]]:
    return await table.query().where(where).select(columns).to_list()
