"""Write so many chunks as the Indexer does: python -m benchmarks.retrieval_ingest CHUNKS FOLDER"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import lancedb

from benchmarks.retrieval_cases import Exact, Stopwatch, disk_mb, resident_mb, say
from benchmarks.synthetic import DIMENSION, Passage, Source
from deployments.maintenance import Maintenance
from deployments.stores import lance_indexes
from deployments.stores.lance import LanceStore
from deployments.stores.lance_rows import table_name
from deployments.stores.protocol import IndexedChunk
from pipeline.documents import Chunk, CorpusKey

CORPUS = CorpusKey("benchmark", "retrieval")
CHUNKS_A_COMMIT = 256


async def ingest(size: int, folder: Path) -> dict[str, Any]:
    source = Source(size)
    exact = Exact.of(source)
    store = LanceStore(str(folder / "index"), DIMENSION)
    maintenance = Maintenance(store.optimise)
    maintenance.start()
    writing, settling = Stopwatch(), Stopwatch()
    for group in groups(source.passages()):
        chunks = [indexed(passage) for passage in group]
        with writing:
            await store.upsert(CORPUS, chunks)
        maintenance.written(CORPUS)
        exact.see(group)
    await maintenance.close()
    with settling:
        await store.optimise(CORPUS)
    exact.write(folder / "exact.json")
    highest = disk_mb(folder / "index")
    await forget_old_versions(store)
    return {
        "chunks": size,
        "chunks_per_s": round(size / writing.seconds),
        "settle_s": round(settling.seconds, 2),
        "vector_index_s": round(await build_again(folder / "index"), 2),
        "disk_mb": disk_mb(folder / "index"),
        "disk_with_old_versions_mb": highest,
        "memory_mb": resident_mb(),
    }


def groups(passages: Iterator[Passage]) -> Iterator[list[Passage]]:
    while group := list(islice(passages, CHUNKS_A_COMMIT)):
        yield group


def indexed(passage: Passage) -> IndexedChunk:
    """A document has four chunks."""
    document, place = divmod(passage.number, 4)
    chunk = Chunk(
        id=str(passage.number),
        document_id=f"d{document}",
        chunk_index=place,
        text=passage.text,
        title=f"Document {document}",
        source=f"https://example.org/{document}",
        metadata={"year": passage.year, "shard": passage.shard},
    )
    return IndexedChunk(chunk, passage.vector, "digest")


async def forget_old_versions(store: LanceStore) -> None:
    lance_indexes.OLD_VERSIONS = timedelta(milliseconds=1)
    await store.optimise(CORPUS)


async def build_again(index: Path) -> float:
    """Return the seconds that the vector index takes from nothing, and leave it."""
    connection = await lancedb.connect_async(str(index))
    table = await connection.open_table(table_name(CORPUS))
    start = time.perf_counter()
    await table.create_index("vector", config=lance_indexes.VECTOR_INDEX, replace=True)
    took = time.perf_counter() - start
    await table.optimize(cleanup_older_than=timedelta(milliseconds=1))
    return took


if __name__ == "__main__":
    say(asyncio.run(ingest(int(sys.argv[1]), Path(sys.argv[2]))))
