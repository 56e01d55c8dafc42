"""Milvus Lite, embedded: write, then search by its hybrid search: … CHUNKS FOLDER

Its index is HNSW with the usual settings, its BM25 has the same constants, and its ranker is RRF.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from pymilvus import (
    AnnSearchRequest,
    DataType,
    Function,
    FunctionType,
    MilvusClient,
    RRFRanker,
)

from benchmarks.retrieval_cases import (
    CASES,
    FIRST,
    QUERIES,
    WARM_UP,
    Case,
    K,
    Stopwatch,
    recall,
    resident_mb,
    say,
    timed,
)
from benchmarks.synthetic import DIMENSION, Passage, Source, Vectors

NAME = "passages"
ROWS_A_CALL = 1_000
# It takes long: enough for a median.
ASKED = 20
COLUMNS = ["body", "document", "year", "shard"]


def run(size: int, folder: Path) -> dict[str, Any]:
    source = Source(size)
    client = MilvusClient(str(folder / "milvus.db"))
    create(client)
    writing, settling = Stopwatch(), Stopwatch()
    passages = source.passages()
    while group := list(islice(passages, ROWS_A_CALL)):
        rows = [row(passage) for passage in group]
        with writing:
            client.insert(NAME, rows)
    with settling:
        client.flush(NAME)
        client.load_collection(NAME)
    queries = source.queries(QUERIES)[:ASKED]
    nearest = json.loads((folder / "exact.json").read_text(encoding="utf-8"))
    # First of all: in this release, once words were searched, a filtered dense search misses hits.
    recalls = {case.name: recalls_of(client, case, queries, nearest[case.name]) for case in CASES}
    return {
        "version": version("milvus-lite"),
        "chunks_per_s": round(size / writing.seconds),
        "settle_s": round(settling.seconds, 2),
        "cases": {case.name: ask_all(client, case, queries) | recalls[case.name] for case in CASES},
        "memory_mb": resident_mb(),
    }


def create(client: MilvusClient) -> None:
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    analyzer = {"tokenizer": "standard", "filter": ["lowercase"]}
    schema.add_field(
        "body", DataType.VARCHAR, max_length=8192, enable_analyzer=True, analyzer_params=analyzer
    )
    schema.add_field("document", DataType.VARCHAR, max_length=64)
    schema.add_field("year", DataType.INT64)
    schema.add_field("shard", DataType.INT64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(Function("bm25", FunctionType.BM25, ["body"], ["words"]))
    indexes = client.prepare_index_params()
    graph = {"M": 16, "efConstruction": 200}
    indexes.add_index("vector", index_type="HNSW", metric_type="COSINE", params=graph)
    constants = {"bm25_k1": 1.2, "bm25_b": 0.75}
    indexes.add_index(
        "words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=constants
    )
    client.create_collection(NAME, schema=schema, index_params=indexes)


def row(passage: Passage) -> dict[str, Any]:
    return {
        "id": passage.number,
        "body": passage.text,
        "document": f"d{passage.number // 4}",
        "year": passage.year,
        "shard": passage.shard,
        "vector": passage.vector,
    }


def recalls_of(
    client: MilvusClient, case: Case, queries: list[tuple[str, Vectors]], nearest: list[list[int]]
) -> dict[str, float]:
    answers = [leg(client, "vector", vector, case)[0] for _, vector in queries]
    found = [[hit["id"] for hit in hits] for hits in answers]
    true = nearest[: len(found)]
    return {f"recall@{depth}": round(recall(found, true, depth), 4) for depth in (FIRST, K)}


def ask_all(client: MilvusClient, case: Case, queries: list[tuple[str, Vectors]]) -> dict[str, Any]:
    ways: dict[str, Callable[[str, Vectors], Any]] = {
        "dense": lambda text, vector: leg(client, "vector", vector, case),
        "bm25": lambda text, vector: leg(client, "words", text, case),
        "hybrid": lambda text, vector: client.hybrid_search(
            NAME,
            list(requests(text, vector, case)),
            RRFRanker(60),
            limit=K,
            output_fields=COLUMNS,
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for text, vector in [*queries[:WARM_UP], *queries]:
        for name, ask in ways.items():
            start = time.perf_counter()
            ask(text, vector)
            seconds[name].append(time.perf_counter() - start)
    return {name: timed(some[WARM_UP:]) for name, some in seconds.items()}


def leg(client: MilvusClient, field: str, asked: Any, case: Case) -> Any:
    return client.search(
        NAME,
        data=[asked],
        anns_field=field,
        limit=K,
        filter=case.expression,
        output_fields=COLUMNS,
    )


def requests(text: str, vector: Vectors, case: Case) -> Iterator[AnnSearchRequest]:
    expression = case.expression or None
    yield AnnSearchRequest([vector], "vector", {"metric_type": "COSINE"}, K, expression)
    yield AnnSearchRequest([text], "words", {"metric_type": "BM25"}, K, expression)


if __name__ == "__main__":
    say(run(int(sys.argv[1]), Path(sys.argv[2])))
