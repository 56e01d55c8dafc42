"""One leg asked of a LanceDB table, best first, with ties in an order of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lancedb.query import AsyncFTSQuery, AsyncVectorQuery
from lancedb.table import AsyncTable

from deployments.stores.lance_errors import ENGINE_ERRORS
from deployments.stores.lance_filters import filter_sql
from deployments.stores.lance_indexes import has_text_index
from deployments.stores.lance_rows import (
    CHUNK_COLUMNS,
    encoders_of,
    refuse_other_dimension,
    to_chunk,
)
from deployments.stores.lance_sources import sources_sql
from deployments.stores.protocol import LegQuery, refuse_other_model
from deployments.stores.ties import Scored, best
from pipeline.legs import BM25, DENSE, LegHit

# Of the vector index: how many partitions of about 8,000 rows are looked into, and how many times
# as many candidates as asked for are compared again by their full vectors. At a million rows this
# finds 99.9 % of the true first 50 (20 partitions: 99.3 %). Tables without an index ignore both.
PROBES = 40
REFINE = 2


async def search_dense(query: LegQuery, table: AsyncTable) -> list[LegHit]:
    assert query.vector is not None  # LegQuery's construction sees to it
    stored = await table.schema()
    refuse_other_model(encoders_of(stored), query)
    refuse_other_dimension(stored, len(query.vector))
    if not query.vector.any():
        return []
    asked = table.query().nearest_to(query.vector).column("vector").distance_type("cosine")
    # Zero: on through all partitions while a filter has left too few.
    asked = asked.maximum_nprobes(0).minimum_nprobes(PROBES).refine_factor(REFINE)
    return await _best(asked, query, lambda row: 1.0 - row["_distance"], "_distance")


async def search_text(query: LegQuery, table: AsyncTable) -> list[LegHit]:
    asked = table.query().nearest_to_text(query.text, columns=["body"])
    try:
        return await _best(asked, query, lambda row: row["_score"], "_score")
    except ENGINE_ERRORS:
        # A corpus that is being created, or whose creation was cut short, has no rows either.
        if await has_text_index(table):
            raise
        return []


LEGS = {DENSE: search_dense, BM25: search_text}


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

    async def ask(limit: int) -> list[Scored]:
        return [(score(row), row) for row in await asked.limit(limit).to_list()]

    return [LegHit(to_chunk(row), found) for found, row in await best(query.k, ask)]
