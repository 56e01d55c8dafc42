"""The indexes of a LanceDB table, and keeping them and its files in order.

Rows that an index does not cover yet are found all the same: the engine scans them and merges.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lancedb.index import FTS, BTree, IvfRq, LabelList
from lancedb.table import AsyncTable

from deployments.stores.lance_rows import vector_dimension

# Positions would only serve phrase queries, which no leg asks.
TEXT_INDEX = FTS(
    with_position=False, language="English", stem=True, remove_stop_words=True, ascii_folding=True
)

# One bit a dimension (RaBitQ), the best candidates compared again by their full vectors. Beside
# HNSW it is built 50 times as fast, so that it can be built again whenever that pays, takes a
# thirtieth of the vectors' space, and with the refinement finds as much (docs/performance.md).
VECTOR_INDEX = IvfRq(distance_type="cosine", num_bits=1)

# RaBitQ rotates vectors of whole bytes of bits only; others are searched exactly.
BITS = 8

# Filters read `terms`; replacing a document looks for its chunks by `document_id` and `id`.
# Smaller tables are scanned in the time that a look into an index takes.
COLUMN_INDEXES: dict[str, BTree | LabelList] = {
    "id": BTree(),
    "document_id": BTree(),
    "terms": LabelList(),
}
COLUMN_INDEX_ROWS = 10_000

# Every round adds a segment to the vector index, and a search looks into each. The engine merges
# them when a partition has grown too large, and never while corpora only change.
MAX_SEGMENTS = 16

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


async def bring_up_to_date(table: AsyncTable, ann_min_rows: int) -> None:
    """Merge small files, delete versions past their age, cover all rows, add indexes that pay."""
    await table.optimize(cleanup_older_than=OLD_VERSIONS)
    rows = await table.count_rows()
    indexes = {index.columns[0]: index for index in await table.list_indices()}
    if rows >= COLUMN_INDEX_ROWS:
        for column, config in COLUMN_INDEXES.items():
            if column not in indexes:
                await table.create_index(column, config=config)
    if rows >= ann_min_rows and await _is_indexable(table) and _is_due(indexes.get("vector")):
        await table.create_index("vector", config=VECTOR_INDEX, replace=True)


async def _is_indexable(table: AsyncTable) -> bool:
    dimension = vector_dimension(await table.schema())
    return dimension is not None and dimension % BITS == 0


def _is_due(index: Any) -> bool:
    return index is None or index.num_segments > MAX_SEGMENTS
