"""The client's answers, from whatever it is pointed at."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from deployments.cli.client import Client, ClientError


class Other(BaseHTTPRequestHandler):
    """Some other server, which answers everything in one way."""

    status = 200
    body = b""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        self.send_header("Location", "https://example.com/")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def other() -> Iterator[HTTPServer]:
    class Configured(Other):
        """So that what a test sets is its own."""

    server = HTTPServer(("127.0.0.1", 0), Configured)
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    serving.start()
    yield server
    server.shutdown()
    server.server_close()
    serving.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>welcome</html>"),
        (200, b""),
        (204, b""),
        (200, b"\xff\xfe"),
        (301, b""),
        (302, b"{}"),
        (200, b"[]"),
        (200, b"null"),
        (200, b"5"),
        (200, b"{}"),
        (200, b'{"error": null}'),
    ],
)
def test_another_server_is_named_in_one_line(other: HTTPServer, status: int, body: bytes) -> None:
    handler = other.RequestHandlerClass
    handler.status, handler.body = status, body  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{other.server_port}"
    with Client(url) as client:
        for ask in (
            client.served_model,
            lambda: client.put("c", [{"id": "a", "text": "t"}]),
            lambda: client.search({"query": "q"})["hits"],
            lambda: list(client.corpora()),
            lambda: list(client.report("usage", 10, {})),
        ):
            with pytest.raises(ClientError) as refused:
                ask()
            assert str(refused.value) == f"{url} is no Onepass server"
            assert not refused.value.is_refusal


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (301, b""), (200, b"[]")])
def test_what_another_server_answers_is_not_taken_for_a_deletion(
    other: HTTPServer, status: int, body: bytes
) -> None:
    handler = other.RequestHandlerClass
    handler.status, handler.body = status, body  # type: ignore[attr-defined]
    with Client(f"http://127.0.0.1:{other.server_port}") as client:
        with pytest.raises(ClientError, match="is no Onepass server"):
            client.drop("c")
        with pytest.raises(ClientError, match="is no Onepass server"):
            client.delete("c", "a")
