"""Limits that the configuration sets; each is named in the error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployments.api.native import DocumentIn, SearchRequest
from deployments.config import LimitsArgs
from pipeline.errors import InvalidInput, PayloadTooLarge

# What the metadata of one request may take up once each chunk carries it.
MAX_CARRIED_BYTES = 64 * 2**20


def check_search(request: SearchRequest, limits: LimitsArgs) -> None:
    check_query(request.query, limits)
    for index, turn in enumerate(request.history or ()):
        check_query(turn.content, limits, f"history[{index}].content")


def check_query(query: str, limits: LimitsArgs, param: str = "query") -> None:
    if len(query) > limits.query_chars:
        raise InvalidInput(f"must have at most {limits.query_chars} characters", param)


def check_texts(texts: Sequence[str], limits: LimitsArgs, param: str = "documents") -> None:
    check_count(len(texts), limits, param)
    for index, text in enumerate(texts):
        check_size(text, f"{param}[{index}]", limits)


def check_documents(documents: Sequence[DocumentIn], limits: LimitsArgs) -> None:
    check_count(len(documents), limits)
    carried = 0
    for index, document in enumerate(documents):
        carried = check_document(document, limits, f"documents[{index}].", carried)


def check_document(
    document: DocumentIn, limits: LimitsArgs, within: str = "", carried: int = 0
) -> int:
    """Return the bytes of metadata that given chunks carry: `carried` and those of this one."""
    chunks = document.chunks or ()
    check_size(document.text or "", f"{within}text", limits)
    check_size("".join(chunks), f"{within}chunks", limits)
    carried += len(chunks) * metadata_bytes(document.metadata, f"{within}metadata", limits)
    if carried > MAX_CARRIED_BYTES:
        message = f"the metadata that each carries makes more than {MAX_CARRIED_BYTES} bytes in all"
        raise PayloadTooLarge(message, f"{within}chunks")
    return carried


def check_count(count: int, limits: LimitsArgs, param: str = "documents") -> None:
    if count > limits.documents:
        raise PayloadTooLarge(f"must hold at most {limits.documents} documents", param)


def metadata_bytes(metadata: Mapping[str, Any], param: str, limits: LimitsArgs) -> int:
    """Return the size of metadata as JSON. Raises PayloadTooLarge over the limit."""
    size = len(json.dumps(metadata))
    if size > limits.metadata_bytes:
        raise PayloadTooLarge(f"must have at most {limits.metadata_bytes} bytes as JSON", param)
    return size


def check_size(text: str, param: str, limits: LimitsArgs) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > limits.text_bytes:
        raise PayloadTooLarge(f"must have at most {limits.text_bytes} bytes", param)
