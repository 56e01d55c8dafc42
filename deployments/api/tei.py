"""The rerank dialect of Hugging Face's text-embeddings-inference."""

from __future__ import annotations

from typing import Any

from pipeline.errors import OnepassError

KINDS = {429: "Overloaded", 503: "Unhealthy"}


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    """An error; with `detail`, which those read who send `documents` to the same route."""
    kind = KINDS.get(error.status, "Validation" if error.status < 500 else "Backend")
    return {"error": error.message, "error_type": kind, "detail": error.message}
