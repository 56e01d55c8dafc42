"""Bulk ingest: documents line by line as newline-delimited JSON, answered line by line.

The body is read as a stream, a batch at a time, and the next batch is read only when the lines of
the last were taken: memory is bounded by a batch, whatever the length of the stream.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from deployments.api.limits import check_document
from deployments.api.native import DocumentId, DocumentIn
from deployments.config import LimitsArgs
from deployments.options import message_of, path_of
from pipeline.documents import Document, PutResult
from pipeline.errors import InvalidInput, OnepassError, PayloadTooLarge

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/x-ndjson"
# Each line's schema.
LINES = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/DocumentIn"}}}
ROUTE = re.compile(r"/v1/corpora/[^/]+/documents")

# What one call of the Indexer gets at most.
BATCH_LINES = 64
BATCH_BYTES = 4 * 2**20
# Beside text and metadata a line holds an id, a title, a source and field names.
OTHER_BYTES = 65_536
# A client that sends nothing for so long may be waiting for its answers.
PAUSE_S = 0.1
ID: TypeAdapter[str] = TypeAdapter(DocumentId)

Put = Callable[[Sequence[Document]], Awaitable[list[PutResult]]]


@dataclass(frozen=True, slots=True)
class Line:
    """A line by its number from 1 on: a document, or what is wrong with it."""

    number: int
    size: int
    document: Document | None = None
    id: str | None = None
    error: str | None = None


class LineResponse(StreamingResponse):
    """Sends lines while the request is still being read."""

    media_type = MEDIA_TYPE

    def __init__(self, lines: AsyncGenerator[str, None]) -> None:
        super().__init__(lines)
        self.lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Not the inherited way, which looks for a disconnect in what is the body here.
        async with aclosing(self.lines):
            await self.stream_response(send)


def is_bulk(method: str, path: str) -> bool:
    """Whether a request's body is such a stream, not to be read as a whole."""
    return method == "POST" and ROUTE.fullmatch(path) is not None


async def ingest(receive: Receive, put: Put, limits: LimitsArgs) -> AsyncGenerator[str, None]:
    """Store the documents of a body, and yield a line for each of its lines, in order.

    A bad line is an error of that line alone. A client that leaves ends it: whole batches are
    stored, the rest is not.
    """
    async with aclosing(parts_of(receive)) as parts:
        try:
            async for batch in batches(read_lines(parts, limits)):
                for answer in await store(batch, put):
                    yield json.dumps(answer) + "\n"
        except ClientDisconnect:
            return


async def parts_of(receive: Receive) -> AsyncGenerator[bytes, None]:
    """Yield a body's parts as they come, and an empty one whenever none came for PAUSE_S.

    Raises ClientDisconnect if the client leaves before the end.
    """
    more = True
    while more:
        coming = asyncio.ensure_future(receive())
        try:
            done, _ = await asyncio.wait({coming}, timeout=PAUSE_S)
            if not done:
                yield b""
            message = await coming
        finally:
            coming.cancel()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if message.get("body"):
            yield message["body"]
        more = message.get("more_body", False)


async def read_lines(parts: AsyncIterator[bytes], limits: LimitsArgs) -> AsyncIterator[Line | None]:
    """Yield the lines that are not blank, and None for a pause. Of one that is too long no more
    is kept than shows it."""
    limit = limits.text_bytes + limits.metadata_bytes + OTHER_BYTES
    number, rest = 0, b""
    async for part in parts:
        if not part:
            yield None
        *whole, rest = (rest + part).split(b"\n")
        rest = rest[: limit + 1]
        for raw in whole:
            number += 1
            if raw.strip():
                yield read_line(number, raw, limit, limits)
                await asyncio.sleep(0)  # a part may hold thousands, and others are served too
    if rest.strip():
        yield read_line(number + 1, rest, limit, limits)


def read_line(number: int, raw: bytes, limit: int, limits: LimitsArgs) -> Line:
    found: dict[str, Any] = {}
    try:
        if len(raw) > limit:
            raise PayloadTooLarge(f"a line must have at most {limit} bytes")
        found = parse(raw)
        given = DocumentIn.model_validate(found)
        check_document(given, limits)
        return Line(number, len(raw), given.document(), given.id)
    except ValidationError as error:
        return Line(number, len(raw), id=id_of(found), error=reason(error))
    except OnepassError as error:
        within = f"{error.param}: " if error.param else ""
        return Line(number, len(raw), id=id_of(found), error=within + error.message)


def parse(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise InvalidInput("the line is not valid JSON") from None
    if not isinstance(found, dict):
        raise InvalidInput("the line must be a JSON object")
    return found


def reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path = path_of([*first["loc"], *first.get("ctx", {}).get("path", ())])
    return f"{path}: {message_of(first)}" if path else message_of(first)


def id_of(found: Mapping[str, Any]) -> str | None:
    """Return the id of a line that was refused, where it has one that may be repeated."""
    try:
        return ID.validate_python(found.get("id"))
    except ValidationError:
        return None


async def batches(lines: AsyncIterator[Line | None]) -> AsyncIterator[list[Line]]:
    """Yield runs of lines, each for one call. An id stands in a run once, so that of two
    documents with one id the later one replaces."""
    batch: list[Line] = []
    async for line in lines:
        if batch and (line is None or not fits(line, batch)):
            yield batch
            batch = []
        if line is not None:
            batch.append(line)
    if batch:
        yield batch


def fits(line: Line, batch: Sequence[Line]) -> bool:
    size = line.size + sum(one.size for one in batch)
    ids = {one.id for one in batch if one.document is not None}
    return len(batch) < BATCH_LINES and size <= BATCH_BYTES and line.id not in ids


async def store(batch: Sequence[Line], put: Put) -> list[dict[str, Any]]:
    """Store a batch's documents and answer each of its lines; what fails is theirs alone."""
    documents = [line.document for line in batch if line.document is not None]
    try:
        results = iter(await put(documents) if documents else [])
    except OnepassError as error:
        logger.warning("%d documents were not stored: %s", len(documents), error)
        results = iter([PutResult(one.id, "failed", error=error.message) for one in documents])
    return [
        refusal(line) if line.document is None else answer(line, next(results)) for line in batch
    ]


def answer(line: Line, result: PutResult) -> dict[str, Any]:
    return {"line": line.number, **asdict(result)}


def refusal(line: Line) -> dict[str, Any]:
    fields = {"id": line.id, "status": "refused", "chunks": None, "error": line.error}
    return {"line": line.number, **fields}
