"""Search what was written, ours and the bare engine in turns: … CHUNKS FOLDER

Ours is what a Retrieval replica and the fusion behind it do. The bare engine's two legs ask for
the same columns by the same index settings, and are not fused.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
from lancedb.table import AsyncTable

from benchmarks.retrieval_cases import (
    CASES,
    FIRST,
    QUERIES,
    WARM_UP,
    Case,
    K,
    recall,
    resident_mb,
    say,
    timed,
)
from benchmarks.retrieval_ingest import CORPUS
from benchmarks.synthetic import Source, Vectors
from deployments.config import IndexArgs
from deployments.retrieval import Retrieval
from deployments.stores.lance_filters import filter_sql
from deployments.stores.lance_rows import CHUNK_COLUMNS, table_name
from deployments.stores.lance_search import PROBES, REFINE
from deployments.stores.protocol import LegQuery
from pipeline.filters import Filter, parse_filter
from pipeline.fusion import fuse
from pipeline.legs import BM25, DENSE, LegResult

TIMEOUT_MS = 60_000
BOTH = (DENSE, BM25)


async def search(size: int, folder: Path) -> dict[str, Any]:
    index = str(folder / "index")
    retrieval = Retrieval(IndexArgs(uri=index))
    connection = await lancedb.connect_async(index, read_consistency_interval=timedelta(0))
    table = await connection.open_table(table_name(CORPUS))
    queries = Source(size).queries(QUERIES)
    nearest = json.loads((folder / "exact.json").read_text(encoding="utf-8"))
    cases = {case.name: await ask_all(case, queries, retrieval, table) for case in CASES}
    for name, figures in cases.items():
        found = figures.pop("found")
        figures[f"recall@{FIRST}"] = round(recall(found, nearest[name], FIRST), 4)
        figures[f"recall@{K}"] = round(recall(found, nearest[name], K), 4)
    return {"cases": cases, "memory_mb": resident_mb()}


async def ask_all(
    case: Case, queries: list[tuple[str, Vectors]], retrieval: Retrieval, table: AsyncTable
) -> dict[str, Any]:
    """Ask every query in every way, the ways in turns, so that a busy moment is everyone's."""
    condition = None if case.filter is None else parse_filter(case.filter)
    ways: Mapping[str, Callable[[str, Vectors], Awaitable[Any]]] = {
        "dense": lambda text, vector: ours(retrieval, (DENSE,), text, vector, condition),
        "bm25": lambda text, vector: ours(retrieval, (BM25,), text, vector, condition),
        "hybrid": lambda text, vector: ours(retrieval, BOTH, text, vector, condition),
        "bare dense": lambda text, vector: bare_dense(table, vector, condition),
        "bare bm25": lambda text, vector: bare_text(table, text, condition),
        "bare both": lambda text, vector: asyncio.gather(
            bare_dense(table, vector, condition), bare_text(table, text, condition)
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found = []
    for text, vector in [*queries[:WARM_UP], *queries]:
        for name, ask in ways.items():
            start = time.perf_counter()
            answer = await ask(text, vector)
            seconds[name].append(time.perf_counter() - start)
            if name == "dense":
                found.append([int(hit.chunk.id) for hit in answer[0].hits])
    figures: dict[str, Any] = {name: timed(some[WARM_UP:]) for name, some in seconds.items()}
    ratio = figures["hybrid"]["p50_ms"] / figures["bare both"]["p50_ms"]
    return {**figures, "hybrid ÷ bare": round(ratio, 2), "found": found[WARM_UP:]}


async def ours(
    retrieval: Retrieval,
    legs: tuple[str, ...],
    text: str,
    vector: Vectors,
    condition: Filter | None,
) -> list[LegResult]:
    queries = [(0, LegQuery(leg, K, text=text, vector=vector, filter=condition)) for leg in legs]
    results = await retrieval.search(CORPUS, queries, TIMEOUT_MS)
    failed = [result.error for result in results if result.error]
    if failed:
        raise RuntimeError(str(failed))
    fuse(results)
    return results


async def bare_dense(table: AsyncTable, vector: Vectors, condition: Filter | None) -> list[Any]:
    asked = table.query().nearest_to(vector).column("vector").distance_type("cosine")
    asked = asked.nprobes(PROBES).refine_factor(REFINE)
    if condition is not None:
        asked = asked.where(filter_sql(condition))
    rows: list[Any] = await asked.select([*CHUNK_COLUMNS, "_distance"]).limit(K).to_list()
    return rows


async def bare_text(table: AsyncTable, text: str, condition: Filter | None) -> list[Any]:
    asked = table.query().nearest_to_text(text, columns=["body"])
    if condition is not None:
        asked = asked.where(filter_sql(condition))
    rows: list[Any] = await asked.select([*CHUNK_COLUMNS, "_score"]).limit(K).to_list()
    return rows


if __name__ == "__main__":
    say(asyncio.run(search(int(sys.argv[1]), Path(sys.argv[2]))))
