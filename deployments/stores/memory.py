"""The exact engine: everything in this process's memory, the oracle of the contract suite."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deployments.stores.protocol import (
    CorpusSize,
    IndexedChunk,
    LegQuery,
    refuse_other_model,
    refuse_to_mix,
)
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import NotFound
from pipeline.filters import matches
from pipeline.legs import BM25, DENSE, SPARSE, LegHit
from pipeline.stamps import strip_reserved
from pipeline.vectors import NO_ENCODERS, Encoders

# The usual BM25 constants, and what LanceDB uses: term saturation and length normalisation.
K1 = 1.2
B = 0.75

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _Row:
    indexed: IndexedChunk
    terms: Counter[str]
    length: int

    @property
    def chunk(self) -> Chunk:
        return self.indexed.chunk


class MemoryStore:
    """A Store without an index: each search looks at every chunk.

    Its words are the lower-cased runs of letters, digits and underscores, without the stemming
    and the stop words of other engines. Corpora end with the process.
    """

    legs = frozenset({DENSE, BM25, SPARSE})

    def __init__(self, encoders: Encoders = NO_ENCODERS) -> None:
        self._own = encoders
        self._corpora: dict[CorpusKey, dict[str, _Row]] = {}
        self._encoders: dict[CorpusKey, Encoders] = {}

    async def upsert(self, corpus: CorpusKey, chunks: Sequence[IndexedChunk]) -> None:
        refuse_to_mix(self._encoders.setdefault(corpus, self._own), self._own)
        replaced = {indexed.chunk.document_id for indexed in chunks}
        kept = {
            id: row
            for id, row in self._corpora.get(corpus, {}).items()
            if row.chunk.document_id not in replaced
        }
        self._corpora[corpus] = kept | {each.chunk.id: _row(each) for each in chunks}

    async def delete(self, corpus: CorpusKey, document_ids: Sequence[str]) -> int:
        stored = await self.digests(corpus, document_ids)
        self._corpora[corpus] = {
            id: row for id, row in self._rows(corpus).items() if row.chunk.document_id not in stored
        }
        return len(stored)

    async def search(self, corpus: CorpusKey, query: LegQuery) -> list[LegHit]:
        rows = list(self._rows(corpus).values())
        refuse_other_model(self._encoders[corpus], query)
        scores = LEGS[query.leg](rows, query)
        hits = [
            LegHit(row.chunk, score)
            for row, score in zip(rows, scores, strict=True)
            if score is not None and _passes(row.chunk, query)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))[: query.k]

    async def fetch(self, corpus: CorpusKey, document_id: str) -> list[Chunk]:
        rows = self._rows(corpus).values()
        chunks = [row.chunk for row in rows if row.chunk.document_id == document_id]
        return sorted(chunks, key=lambda chunk: (chunk.chunk_index, chunk.id))

    async def digests(self, corpus: CorpusKey, document_ids: Sequence[str]) -> Mapping[str, str]:
        wanted = set(document_ids)
        return {
            row.chunk.document_id: row.indexed.document_digest
            for row in self._rows(corpus).values()
            if row.chunk.document_id in wanted
        }

    async def documents(
        self, corpus: CorpusKey, after: str, limit: int
    ) -> list[tuple[str, str | None]]:
        chunks = [row.chunk for row in self._rows(corpus).values()]
        titles = {chunk.document_id: chunk.title for chunk in chunks if chunk.document_id > after}
        return sorted(titles.items())[:limit]

    async def size(self, corpus: CorpusKey) -> CorpusSize:
        rows = self._rows(corpus).values()
        return CorpusSize(len({row.chunk.document_id for row in rows}), len(rows))

    async def corpora(self, tenant: str) -> list[str]:
        return sorted(corpus.name for corpus in self._corpora if corpus.tenant == tenant)

    async def optimise(self, corpus: CorpusKey) -> None:
        self._rows(corpus)

    async def drop(self, corpus: CorpusKey) -> None:
        self._rows(corpus)
        del self._corpora[corpus], self._encoders[corpus]

    def _rows(self, corpus: CorpusKey) -> dict[str, _Row]:
        if corpus not in self._corpora:
            raise NotFound("there is no such corpus", "corpus")
        return self._corpora[corpus]


def _row(indexed: IndexedChunk) -> _Row:
    """Prepare a chunk; no reserved key gets in, so none can come out or be filtered on."""
    chunk = replace(indexed.chunk, metadata=strip_reserved(indexed.chunk.metadata))
    terms = Counter(_words(chunk.body))
    return _Row(replace(indexed, chunk=chunk), terms, terms.total())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _passes(chunk: Chunk, query: LegQuery) -> bool:
    if query.filter is not None and not matches(query.filter, chunk.metadata):
        return False
    return all(rules.allows(chunk.source) for rules in query.sources)


def cosine_scores(rows: Sequence[_Row], query: LegQuery) -> list[float | None]:
    """Score each row by cosine similarity; None without a vector, or where either is zero."""
    assert query.vector is not None  # LegQuery's construction sees to it
    return [_cosine(row.indexed.vector, query.vector) for row in rows]


def _cosine(left: NDArray[np.float32] | None, right: NDArray[np.float32]) -> float | None:
    """One pair at a time: a matrix product may score equal rows unequally in the last bit."""
    if left is None:
        return None
    norms = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    return float(left @ right) / norms if norms else None


def inner_products(rows: Sequence[_Row], query: LegQuery) -> list[float | None]:
    """Score each row by its terms' weights times the query's; None without a common term."""
    assert query.sparse_vector is not None  # LegQuery's construction sees to it
    return [
        None if row.indexed.sparse is None else row.indexed.sparse.dot(query.sparse_vector)
        for row in rows
    ]


def bm25_scores(rows: Sequence[_Row], query: LegQuery) -> list[float | None]:
    """Score each row by Okapi BM25; None where it has no word of the query.

    A word repeated in the query counts as often. Robertson and Zaragoza, "The Probabilistic
    Relevance Framework: BM25 and Beyond" (2009), with the Robertson-Spärck Jones weight kept
    positive as in Lucene: idf = ln(1 + (N - n + 0.5) / (n + 0.5)).
    """
    words = _words(query.text)
    weights = {word: _idf(rows, word) for word in set(words)}
    average = sum(row.length for row in rows) / max(1, len(rows))
    return [_bm25(row, words, weights, average) for row in rows]


def _idf(rows: Sequence[_Row], word: str) -> float:
    holding = sum(word in row.terms for row in rows)
    return math.log(1 + (len(rows) - holding + 0.5) / (holding + 0.5))


def _bm25(
    row: _Row, words: Iterable[str], weights: Mapping[str, float], average: float
) -> float | None:
    total = None
    for word in words:
        if frequency := row.terms[word]:
            saturation = frequency + K1 * (1 - B + B * row.length / average)
            total = (total or 0.0) + weights[word] * frequency * (K1 + 1) / saturation
    return total


LEGS = {DENSE: cosine_scores, BM25: bm25_scores, SPARSE: inner_products}
