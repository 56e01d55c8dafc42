"""A real HTTP service on loopback that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer: `body` as JSON, or `content` as it is. `hangs` holds it back until the test ends,
    `breaks` closes the connection instead."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    hangs: bool = False
    breaks: bool = False

    def encoded(self) -> bytes:
        return json.dumps(self.body).encode() if self.content is None else self.content


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Any


class Service:
    """Answers by `answer`, a function of the request's body."""

    def __init__(self) -> None:
        self.answer: Callable[[Any], Reply] = lambda body: Reply({})
        self.asked: list[Asked] = []
        self.ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def bodies(self) -> list[Any]:
        return [asked.body for asked in self.asked]

    def says(self, *replies: Reply) -> None:
        """Answer with these in turn, with the last for ever."""
        left = list(replies)
        self.answer = lambda body: left.pop(0) if len(left) > 1 else left[0]

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(content)
                service.asked.append(Asked(self.path, dict(self.headers), body))
                reply = service.answer(body)
                if reply.hangs:
                    service.ended.wait(60)
                elif not reply.breaks:
                    self.send(reply)

            def send(self, reply: Reply) -> None:
                answer = reply.encoded()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
