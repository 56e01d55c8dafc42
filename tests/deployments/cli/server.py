"""A small HTTP server on a free port, which answers as a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# From method, path and body to status and body.
Answer = Callable[[str, str, Any], tuple[int, Any]]


class SmallServer(ThreadingHTTPServer):
    """Use it as a context manager; `requests` holds what came, in order."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests: list[tuple[str, str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> SmallServer:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: SmallServer

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.requests.append((self.command, self.path, body))
        status, answer = self.server.answer(self.command, self.path, body)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def log_message(self, format: str, *args: object) -> None:
        pass


def refusal(message: str, param: str, status: int = 422) -> tuple[int, Any]:
    return status, {"error": {"type": "invalid_input", "message": message, "param": param}}


def hit(document: str, relevance: float | None = None, chunk: int = 0) -> dict[str, Any]:
    score = None if relevance is None else {"logit": 0.0, "relevance": relevance}
    return {
        "id": f"{document}#{chunk}",
        "document_id": document,
        "scores": {"retrieval": 1.0, "fusion": 0.1, "cross_encoder": score},
    }


def search_answer(*hits: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """What a search answers, as far as the commands read it."""
    return {
        "hits": list(hits),
        "forward_passes": 0,
        "cached_scores": 0,
        "model": "m@1",
        "degraded": [],
        "timings_ms": {"total": 10.0},
        **fields,
    }
