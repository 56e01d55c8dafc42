"""How corpora and chunks lie in LanceDB: a table's name, its columns and its rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from deployments.stores.protocol import IndexedChunk
from deployments.stores.terms import metadata_terms
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import InvalidInput, Unavailable
from pipeline.filters import as_float64
from pipeline.stamps import strip_reserved
from pipeline.vectors import NO_ENCODERS, Encoders

# What a Chunk is made from again; the vector and the terms stay where they are.
CHUNK_COLUMNS = ["id", "document_id", "chunk_index", "title", "body", "source", "metadata"]

# Marks a column as the key: without it, two writers that insert a row at once insert it twice.
KEY = {b"lance-schema:unenforced-primary-key": b"true"}

# Where a table's schema remembers its encoders.
ENCODERS = b"onepass.encoders"

# The engine's JSON parser overflows its stack, and so ends the process, at some thousands.
MAX_NESTING = 64

# A table is a folder or a key prefix, and 255 bytes is the common limit of its name.
MAX_TABLE_NAME = 240


def table_name(corpus: CorpusKey) -> str:
    """Return a name that no other corpus has, on file systems that ignore case as well."""
    name = table_prefix(corpus.tenant) + _escape(corpus.name)
    if len(name) > MAX_TABLE_NAME:
        raise InvalidInput("the names of tenant and corpus are too long together", "corpus")
    return name


def table_prefix(tenant: str) -> str:
    """Return what the names of a tenant's tables, and of no other's, begin with."""
    return _escape(tenant) + "."


def corpus_of(table: str) -> str:
    """Return the name of the corpus that a table holds."""
    escaped = table.partition(".")[2].encode("ascii")
    return re.sub(
        rb"_([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), escaped
    ).decode()


def _escape(name: str) -> str:
    """Write each byte but a to z, 0 to 9 and the hyphen as an underscore and two hex digits."""
    return re.sub(rb"[^a-z0-9-]", lambda match: b"_%02x" % match[0][0], name.encode()).decode()


def schema(dimension: int | None, encoders: Encoders = NO_ENCODERS) -> pa.Schema:
    """Return the columns of a corpus, and what it remembers; without a dimension it has no
    vectors."""
    fields = [
        pa.field("id", pa.string(), nullable=False, metadata=KEY),
        pa.field("document_id", pa.string(), nullable=False),
        pa.field("chunk_index", pa.int64(), nullable=False),
        pa.field("title", pa.string()),
        pa.field("body", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("metadata", pa.json_(), nullable=False),
        pa.field("terms", pa.list_(pa.int64()), nullable=False),
        pa.field("document_digest", pa.string(), nullable=False),
    ]
    if dimension is not None:
        fields.append(pa.field("vector", pa.list_(pa.float32(), dimension)))
    return pa.schema(fields, {ENCODERS: json.dumps(asdict(encoders))})


def encoders_of(stored: pa.Schema) -> Encoders | None:
    """Return which models made a table's vectors; None for a table made before it was kept."""
    kept = (stored.metadata or {}).get(ENCODERS)
    return None if kept is None else Encoders(**json.loads(kept))


def vector_dimension(stored: pa.Schema) -> int | None:
    """Return the dimension of a table's vectors; None if it has none."""
    place = stored.get_field_index("vector")
    return None if place < 0 else stored.field(place).type.list_size


def refuse_other_dimension(stored: pa.Schema, dimension: int | None) -> None:
    """Raise Unavailable if a table's vectors are of another dimension."""
    found = vector_dimension(stored)
    if found != dimension:
        raise Unavailable(f"the corpus has vectors of dimension {found}, the model of {dimension}")


def to_rows(chunks: Sequence[IndexedChunk], dimension: int | None) -> pa.Table:
    """Lay chunks out as rows; of several with one id the last counts.

    Raises InvalidInput for metadata that the engine cannot hold: nested too deep, or with a
    number that no float64 is near to.
    """
    unique = list({each.chunk.id: each for each in chunks}.values())
    metadata = [strip_reserved(each.chunk.metadata) for each in unique]
    for each in metadata:
        _refuse_unstorable(each, 1)
    columns = {
        "id": [each.chunk.id for each in unique],
        "document_id": [each.chunk.document_id for each in unique],
        "chunk_index": [each.chunk.chunk_index for each in unique],
        "title": [each.chunk.title for each in unique],
        "body": [each.chunk.body for each in unique],
        "source": [each.chunk.source for each in unique],
        "metadata": pa.array(map(json.dumps, metadata), pa.json_()),
        "terms": pa.array(map(metadata_terms, metadata), pa.list_(pa.int64())),
        "document_digest": [each.document_digest for each in unique],
    }
    if dimension is not None:
        columns["vector"] = _vectors(unique, dimension)
    return pa.table(columns, schema=schema(dimension))


def to_chunk(row: Mapping[str, Any]) -> Chunk:
    """Make a chunk from its columns; the text is the body without the title and its newline."""
    title = row["title"]
    return Chunk(
        id=row["id"],
        document_id=row["document_id"],
        chunk_index=row["chunk_index"],
        text=row["body"][len(title) + 1 :] if title else row["body"],
        title=title,
        source=row["source"],
        metadata=strip_reserved(json.loads(row["metadata"])),
    )


def _vectors(chunks: Sequence[IndexedChunk], dimension: int) -> pa.FixedSizeListArray:
    """Null stands for no vector and for zero, which has no direction to compare."""
    matrix = np.zeros((len(chunks), dimension), dtype=np.float32)
    for row, each in zip(matrix, chunks, strict=True):
        if each.vector is not None:
            if each.vector.shape != (dimension,):
                raise ValueError(f"a vector's shape is not ({dimension},)")
            row[:] = each.vector
    empty = pa.array(~matrix.any(axis=1))
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dimension, mask=empty)


def _refuse_unstorable(value: Any, depth: int) -> None:
    if depth > MAX_NESTING:
        raise InvalidInput(f"metadata nests at most {MAX_NESTING} deep", "metadata")
    if isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            _refuse_unstorable(each, depth + 1)
    elif isinstance(value, int | float) and not math.isfinite(as_float64(value)):
        raise InvalidInput("a number in metadata must be finite as a float64", "metadata")
