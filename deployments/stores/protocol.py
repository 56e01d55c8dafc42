"""What every index engine does for us. Fusion is ours, so an engine only answers single legs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import InvalidInput, Unavailable
from pipeline.filters import Filter
from pipeline.legs import BM25, DENSE, SPARSE, LegHit
from pipeline.sources import SourceRules
from pipeline.vectors import Encoders, SparseVector

# The legs of each engine that a configuration may name.
ENGINE_LEGS: Mapping[str, frozenset[str]] = {
    "lancedb": frozenset({DENSE, BM25}),
    "qdrant": frozenset({DENSE, BM25, SPARSE}),
}


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk as it is written: with its vectors, and its document's digest.

    `vector` is (dimension,); `sparse` is for engines that have that leg, others leave it out.
    """

    chunk: Chunk
    vector: NDArray[np.float32] | None
    document_digest: str
    sparse: SparseVector | None = None


@dataclass(frozen=True, slots=True)
class LegQuery:
    """One leg for one query variant: `text` for bm25, `vector` (dimension,) for dense, and
    `sparse_vector` for sparse, each made by the model of that fingerprint, if it is known.

    A hit passes the filter, and each of the `sources` rules allows it.
    """

    leg: str
    k: int
    text: str = ""
    vector: NDArray[np.float32] | None = None
    filter: Filter | None = None
    sources: tuple[SourceRules, ...] = ()
    sparse_vector: SparseVector | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if self.leg == DENSE and self.vector is None:
            raise ValueError("a dense query needs a vector")
        if self.leg == SPARSE and self.sparse_vector is None:
            raise ValueError("a sparse query needs a sparse vector")


@dataclass(frozen=True, slots=True)
class CorpusSize:
    documents: int
    chunks: int


class Store(Protocol):
    """One index engine. Every method but `upsert` and `corpora` raises NotFound for a corpus
    that does not exist; whatever the engine raises comes out as Unavailable. No chunk that comes
    out has a reserved key in its metadata, whatever went in.

    A corpus remembers the encoders of the store that created it. One of other encoders may not
    write to it (InvalidInput), nor may a query of another model search it (Unavailable)."""

    @property
    def legs(self) -> frozenset[str]:
        """The legs that it can search."""

    async def upsert(self, corpus: CorpusKey, chunks: Sequence[IndexedChunk]) -> None:
        """Replace, in one commit, all chunks of the documents that `chunks` belong to.

        Creates the corpus. Of several chunks with one id the last counts. Once this returns,
        every later search through any Store on the same data sees the new chunks, and none of
        the old.
        """

    async def delete(self, corpus: CorpusKey, document_ids: Sequence[str]) -> int:
        """Delete documents with all their chunks; return how many documents existed."""

    async def search(self, corpus: CorpusKey, query: LegQuery) -> list[LegHit]:
        """Return at most `query.k` hits, best first; ties by chunk id. Dense scores are cosine
        similarities; a chunk without a vector, or with a zero one, is in no dense answer. Sparse
        scores are inner products; a hit has a term of the query. Filter and source rules act
        before the limit, and mean what `pipeline.filters.matches` and `SourceRules.allows` say.
        A text without a known word finds nothing."""

    async def fetch(self, corpus: CorpusKey, document_id: str) -> list[Chunk]:
        """Return a document's chunks by chunk index; empty if there is no such document."""

    async def digests(self, corpus: CorpusKey, document_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the digest of each of these documents that is stored."""

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]:
        """Return the ids, each with its title, of the first `limit` documents behind the id
        `after`, sorted by id in the order of code points."""

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        """Count documents and chunks."""

    async def corpora(self, tenant: str) -> list[str]:
        """Return the names of a tenant's corpora, sorted."""

    async def optimise(self, corpus: CorpusKey) -> None:
        """Bring the indexes up to date and merge small files. Answers stay, and come faster."""

    async def drop(self, corpus: CorpusKey) -> None:
        """Delete the corpus with everything in it."""


def refuse_to_mix(stored: Encoders | None, own: Encoders) -> None:
    """Raise InvalidInput if a corpus of these encoders, None if not known, may not be written to
    by a store of its own ones."""
    if stored is None:
        return
    for had, has, kind in (
        (stored.dense, own.dense, "dense"),
        (stored.sparse, own.sparse, "sparse"),
    ):
        if had != has:
            raise InvalidInput(
                f"the corpus has {kind} vectors of {had or 'no model'}, and this application makes "
                f"those of {has or 'no model'}: they cannot be compared. Use another corpus, or "
                "delete this one and put its documents again",
                "corpus",
            )


def refuse_other_model(stored: Encoders | None, query: LegQuery) -> None:
    """Raise Unavailable if a query's vector is of another model than the corpus's."""
    if stored is None or query.model is None:
        return
    had = stored.dense if query.leg == DENSE else stored.sparse
    if had != query.model:
        raise Unavailable(
            f"the corpus has {query.leg} vectors of {had or 'no model'}, the query one of "
            f"{query.model}"
        )
