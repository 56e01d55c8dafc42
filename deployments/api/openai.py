"""OpenAI's dialect: embeddings and the list of models."""

from __future__ import annotations

from typing import Any

from pipeline.errors import OnepassError

KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": error.message,
            "type": KINDS.get(error.status, kind),
            "param": error.param,
            "code": error.type,
            "request_id": request_id,
        }
    }
