"""The indexes of a LanceDB table, and keeping them and its files in order.

Rows that an index does not cover yet are found all the same: the engine scans them and merges.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lancedb.index import FTS, BTree, IvfRq, LabelList
from lancedb.table import AsyncTable

from deployments.stores.lance_rows import vector_dimension
from pipeline.errors import Unavailable

# Positions would only serve phrase queries, which no leg asks.
TEXT_INDEX = FTS(
    with_position=False, language="English", stem=True, remove_stop_words=True, ascii_folding=True
)

# Four bits a dimension (RaBitQ), the best candidates compared again by their full vectors. It is
# built within seconds where HNSW takes a minute, so that it can be built again whenever that pays,
# and takes an eighth of the vectors' space (docs/performance.md).
VECTOR_INDEX = IvfRq(distance_type="cosine", num_bits=4)

# The engine takes dimensions that this divides; others are searched exactly.
DIMENSIONS_OF = 8

# Filters read `terms`; replacing a document looks for its chunks by `document_id` and `id`.
# Smaller tables are scanned in the time that a look into an index takes.
COLUMN_INDEXES: dict[str, BTree | LabelList] = {
    "id": BTree(),
    "document_id": BTree(),
    "terms": LabelList(),
}
COLUMN_INDEX_ROWS = 10_000

# Every round adds a segment to the vector index, and a search looks into each; files whose rows
# lie in different segments are not merged either. The engine merges segments when a partition has
# grown too large; while a corpus only changes, building the index again does it.
MAX_SEGMENTS = 16

# A write to rows whose files are being merged goes first, and this is told.
CONFLICT = "Retryable commit conflict"
MERGE_TRIES = 3

# What readers may still be reading: a search ends long before.
OLD_VERSIONS = timedelta(minutes=10)


async def ensure_text_index(table: AsyncTable) -> None:
    """Make the index before the first row, so that rows never stand without one."""
    if await has_text_index(table):
        return
    try:
        await table.create_index("body", config=TEXT_INDEX)
    except RuntimeError:
        # Of two writers that create a corpus at once, one is told of a conflict.
        if not await has_text_index(table):
            raise


async def has_text_index(table: AsyncTable) -> bool:
    return any(index.columns == ["body"] for index in await table.list_indices())


async def merge_files(table: AsyncTable) -> None:
    """Merge small files, delete versions past their age, and let the indexes cover all rows.

    Raises Unavailable if other processes' writes keep changing the rows that are merged.
    """
    for _ in range(MERGE_TRIES):
        try:
            await table.optimize(cleanup_older_than=OLD_VERSIONS)
            return
        except RuntimeError as error:
            if CONFLICT not in str(error):
                raise
    raise Unavailable("the corpus changes faster than its files can be merged")


async def add_indexes(table: AsyncTable, ann_min_rows: int) -> None:
    """Build the indexes that pay. Writes may go on meanwhile."""
    indexes = {index.columns[0]: index for index in await table.list_indices()}
    if await table.count_rows() >= COLUMN_INDEX_ROWS:
        for column, config in COLUMN_INDEXES.items():
            if column not in indexes:
                await table.create_index(column, config=config)
    if _is_due(indexes.get("vector")) and await _indexable_vectors(table) >= ann_min_rows:
        await table.create_index("vector", config=VECTOR_INDEX, replace=True)


def _is_due(index: Any) -> bool:
    return index is None or index.num_segments > MAX_SEGMENTS


async def _indexable_vectors(table: AsyncTable) -> int:
    dimension = vector_dimension(await table.schema())
    if dimension is None or dimension % DIMENSIONS_OF:
        return 0
    return int(await table.count_rows("vector IS NOT NULL"))
