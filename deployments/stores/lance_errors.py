"""What LanceDB's binding raises, and what that means to us."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from deployments.stores.lance_rows import table_name
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound, Unavailable

log = logging.getLogger(__name__)

# A missing table is a ValueError, told by its message.
ENGINE_ERRORS = (RuntimeError, ValueError, OSError, pa.ArrowException)
CREATED_BY_ANOTHER = ("already exists", "commit conflict")


@contextmanager
def engine_errors(corpus: CorpusKey | None = None) -> Iterator[None]:
    """Raise NotFound if the corpus has no table, and Unavailable for all else."""
    try:
        yield
    except ENGINE_ERRORS as error:
        if corpus is not None and f"Table '{table_name(corpus)}' was not found" in str(error):
            raise NotFound("there is no such corpus", "corpus") from error
        raise unavailable(error) from error


def unavailable(error: Exception) -> Unavailable:
    """Log what the engine raised, and return what a client may know of it."""
    log.error("LanceDB failed", exc_info=error)
    return Unavailable("the index engine failed")


def created_by_another(error: Exception) -> bool:
    """Whether a table could not be made because another writer was first, or is at it."""
    return any(sign in str(error) for sign in CREATED_BY_ANOTHER)
