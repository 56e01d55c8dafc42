"""Rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deployments.cli.pieces import Columns, UnreadableFile
from deployments.cli.rows import check_columns

ROWS_AT_ONCE = 256


def read_rows(file: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (bytes, row) for each row of a file. Raises UnreadableFile if it is no such file."""
    try:
        # Without a buffer ahead, memory is bounded by a page of each column.
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=2**20) as table:
            check_columns(table.schema_arrow.names, columns)
            share = file.stat().st_size // max(table.metadata.num_rows, 1)
            for batch in table.iter_batches(batch_size=ROWS_AT_ONCE):
                for row in batch.cast(coarser(batch.schema), safe=False).to_pylist():
                    yield share, row
    except pa.ArrowException as error:
        raise UnreadableFile(f"it is not Parquet that can be read: {first_line(error)}") from None


def coarser(schema: pa.Schema) -> pa.Schema:
    """Return the types with microseconds for nanoseconds, which Python's times do not have."""
    return pa.schema([field.with_type(coarser_type(field.type)) for field in schema])


def coarser_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if kind == pa.time64("ns") else kind


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
