"""How corpora and chunks lie in Qdrant: a collection's vectors and payloads, and its points."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
from qdrant_client import models

from deployments.stores.english import document_vector, query_vector
from deployments.stores.protocol import IndexedChunk, LegQuery
from deployments.stores.qdrant_filters import filter_condition, order_values, sources_condition
from deployments.stores.terms import metadata_terms
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import InvalidInput
from pipeline.legs import BM25, DENSE, SPARSE
from pipeline.stamps import digest, strip_reserved
from pipeline.vectors import Encoders, SparseVector

# What a Chunk is made from again; the vectors and what filters ask stay where they are.
CHUNK_KEYS = ["id", "document_id", "chunk_index", "title", "text", "source", "metadata"]

# Every search is of one tenant, so there is a graph for each and none over all.
GRAPHS = models.HnswConfigDiff(m=0, payload_m=16)

KEYWORD = models.KeywordIndexType.KEYWORD
INDEXES: Mapping[str, models.PayloadSchemaParams] = {
    "tenant": models.KeywordIndexParams(type=KEYWORD, is_tenant=True),
    "corpus": models.KeywordIndexParams(type=KEYWORD),
    "corpus_of": models.KeywordIndexParams(type=KEYWORD),
    "document_id": models.KeywordIndexParams(type=KEYWORD),
    "source": models.KeywordIndexParams(type=KEYWORD, prefix=True),
    "terms": models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=True, range=False
    ),
    "leads": models.BoolIndexParams(type=models.BoolIndexType.BOOL),
}

Vector = list[float] | models.SparseVector


def dense_vectors(dimension: int | None) -> dict[str, models.VectorParams]:
    if dimension is None:
        return {}
    return {DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE)}


def sparse_vectors() -> dict[str, models.SparseVectorParams]:
    return {
        BM25: models.SparseVectorParams(modifier=models.Modifier.IDF),
        SPARSE: models.SparseVectorParams(),
    }


def corpus_filter(
    corpus: CorpusKey,
    must: Sequence[models.Condition] = (),
    must_not: Sequence[models.Condition] = (),
) -> models.Filter:
    """Return the filter for the chunks of a corpus that pass the conditions."""
    own = [matching("tenant", corpus.tenant), matching("corpus", corpus.name)]
    return models.Filter(must=[*own, *must], must_not=list(must_not))


def query_filter(corpus: CorpusKey, query: LegQuery) -> models.Filter:
    """Return the filter for the chunks that a query may find."""
    filters = [] if query.filter is None else [filter_condition(query.filter)]
    return corpus_filter(corpus, [*filters, *map(sources_condition, query.sources)])


def matching(key: str, value: str | bool) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def asked_vector(query: LegQuery) -> Vector | None:
    """Return what a query asks its leg for; None where that can find nothing."""
    if query.leg == DENSE:
        assert query.vector is not None  # LegQuery's construction sees to it
        return query.vector.tolist() if query.vector.any() else None
    sparse = query_vector(query.text) if query.leg == BM25 else query.sparse_vector
    assert sparse is not None
    return _sparse(sparse)


def corpus_point(corpus: CorpusKey, encoders: Encoders) -> models.PointStruct:
    """Return the point that says that a corpus is there, and of which models it is."""
    payload = {
        "corpus_of": corpus.tenant,
        "name": corpus.name,
        "dense_model": encoders.dense,
        "sparse_model": encoders.sparse,
    }
    return models.PointStruct(id=corpus_id(corpus), vector={}, payload=payload)


def corpus_id(corpus: CorpusKey) -> str:
    return str(UUID(digest("corpus", corpus.tenant, corpus.name)))


def encoders_in(payload: Mapping[str, Any]) -> Encoders:
    """Return the models that a corpus's point names."""
    return Encoders(payload["dense_model"], payload["sparse_model"])


def to_points(
    corpus: CorpusKey, chunks: Sequence[IndexedChunk], dimension: int | None
) -> list[models.PointStruct]:
    """Lay out documents, all chunks of each, as points; of several with one id the last counts.

    Raises InvalidInput for a number in metadata that no float64 is near to.
    """
    unique = {each.chunk.id: each for each in chunks}.values()
    sizes = Counter(each.chunk.document_id for each in unique)
    leading: dict[str, Chunk] = {}
    for each in unique:
        first = leading.setdefault(each.chunk.document_id, each.chunk)
        if each.chunk.chunk_index < first.chunk_index:
            leading[each.chunk.document_id] = each.chunk
    return [
        models.PointStruct(
            id=str(UUID(digest("chunk", corpus.tenant, corpus.name, each.chunk.id))),
            vector=_vectors(each, dimension),
            payload={
                "tenant": corpus.tenant,
                "corpus": corpus.name,
                **_payload(each),
                "document_chunks": sizes[each.chunk.document_id],
                "leads": leading[each.chunk.document_id] is each.chunk,
            },
        )
        for each in unique
    ]


def to_chunk(payload: Mapping[str, Any]) -> Chunk:
    """Make a chunk from its payload."""
    return Chunk(
        id=payload["id"],
        document_id=payload["document_id"],
        chunk_index=payload["chunk_index"],
        text=payload["text"],
        title=payload.get("title"),
        source=payload.get("source"),
        metadata=strip_reserved(json.loads(payload["metadata"])),
    )


def _payload(indexed: IndexedChunk) -> dict[str, Any]:
    chunk = indexed.chunk
    metadata = strip_reserved(chunk.metadata)
    order = order_values(metadata)
    if not all(map(math.isfinite, order.values())):
        raise InvalidInput("a number in metadata must be finite as a float64", "metadata")
    return {
        "id": chunk.id,
        "document_id": chunk.document_id,
        "chunk_index": chunk.chunk_index,
        "title": chunk.title,
        "text": chunk.text,
        "source": chunk.source,
        # As text: the engine would change large numbers, and index what nobody asks for.
        "metadata": json.dumps(metadata),
        "terms": metadata_terms(metadata),
        "order": order,
        "document_digest": indexed.document_digest,
    }


def _vectors(indexed: IndexedChunk, dimension: int | None) -> dict[str, Any]:
    """Return a point's vectors; it is in no leg for which it has none."""
    vectors: dict[str, Vector | None] = {BM25: _sparse(document_vector(indexed.chunk.body))}
    if indexed.sparse is not None:
        vectors[SPARSE] = _sparse(indexed.sparse)
    if dimension is not None and indexed.vector is not None and np.any(indexed.vector):
        if indexed.vector.shape != (dimension,):
            raise ValueError(f"a vector's shape is not ({dimension},)")
        vectors[DENSE] = indexed.vector.tolist()
    return {name: vector for name, vector in vectors.items() if vector is not None}


def _sparse(vector: SparseVector) -> models.SparseVector | None:
    if not len(vector.ids):
        return None
    return models.SparseVector(indices=vector.ids.tolist(), values=vector.weights.tolist())
