"""What a table of LanceDB holds: its documents, counted and listed.

The engine neither groups nor sorts, so each of these reads a column through, batch by batch:
a few tens of milliseconds for 100,000 chunks.
"""

from __future__ import annotations

from lancedb.table import AsyncTable

from deployments.stores.lance_filters import quoted
from deployments.stores.protocol import CorpusSize


async def measure(table: AsyncTable) -> CorpusSize:
    """Count documents and chunks."""
    documents: set[str] = set()
    chunks = 0
    async for batch in await table.query().select(["document_id"]).to_batches():
        documents.update(batch["document_id"].unique().to_pylist())
        chunks += batch.num_rows
    return CorpusSize(len(documents), chunks)


async def list_documents(after: str, limit: int, table: AsyncTable) -> list[tuple[str, str | None]]:
    """Return the first `limit` ids behind `after`, each with its title, sorted by id."""
    first: dict[str, str | None] = {}
    behind = table.query().where(f"document_id > {quoted(after)}")
    async for batch in await behind.select(["document_id", "title"]).to_batches():
        first.update(zip(batch["document_id"].to_pylist(), batch["title"].to_pylist(), strict=True))
        # Dropped in time, so that memory is bounded by a page and a batch.
        first = dict(sorted(first.items())[:limit])
    return list(first.items())
