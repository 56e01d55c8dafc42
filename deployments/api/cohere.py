"""Cohere's rerank dialect, version 2."""

from __future__ import annotations

from typing import Any

from pipeline.errors import OnepassError


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    return {"id": request_id, "message": error.message}
