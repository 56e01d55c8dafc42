"""The ranking dialect of NVIDIA's NIM."""

from __future__ import annotations

from typing import Any

from pipeline.errors import OnepassError


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    return {"error": error.message, "detail": error.message, "requestId": request_id}
