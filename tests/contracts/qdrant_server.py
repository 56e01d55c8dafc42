"""The client's local mode behind HTTP, with the paths and bodies of Qdrant's API.

It proves that what we ask can be sent, read strictly by the API's own models, and answered: not
what a real server makes of it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from qdrant_client import QdrantClient, models

Answer = Callable[[QdrantClient, str, bytes], Any]


def read(model: type[BaseModel], body: bytes) -> Any:
    return model.model_validate_json(body)


def create(client: QdrantClient, name: str, body: bytes) -> Any:
    asked = read(models.CreateCollection, body)
    return client.create_collection(name, asked.vectors, asked.sparse_vectors)


def add_index(client: QdrantClient, name: str, body: bytes) -> Any:
    asked = read(models.CreateFieldIndex, body)
    return client.create_payload_index(name, asked.field_name, asked.field_schema)


def upsert(client: QdrantClient, name: str, body: bytes) -> Any:
    return client.upsert(name, read(models.PointsList, body).points)


def delete(client: QdrantClient, name: str, body: bytes) -> Any:
    return client.delete(name, read(models.FilterSelector, body))


def retrieve(client: QdrantClient, name: str, body: bytes) -> Any:
    return client.retrieve(name, read(models.PointRequest, body).ids)


def scroll(client: QdrantClient, name: str, body: bytes) -> Any:
    asked = read(models.ScrollRequest, body)
    records, page = client.scroll(
        name, asked.filter, asked.limit, offset=asked.offset, with_payload=asked.with_payload
    )
    return {"points": records, "next_page_offset": page}


def count(client: QdrantClient, name: str, body: bytes) -> Any:
    asked = read(models.CountRequest, body)
    return client.count(name, asked.filter, asked.exact)


def query(client: QdrantClient, name: str, body: bytes) -> Any:
    asked = read(models.QueryRequest, body)
    return client.query_points(
        name,
        asked.query,
        using=asked.using,
        query_filter=asked.filter,
        search_params=asked.params,
        limit=asked.limit,
        with_payload=asked.with_payload,
    )


ROUTES: dict[tuple[str, str], Answer] = {
    ("GET", ""): lambda client, name, body: client.get_collection(name),
    ("GET", "/exists"): lambda client, name, body: {"exists": client.collection_exists(name)},
    ("PUT", ""): create,
    ("DELETE", ""): lambda client, name, body: client.delete_collection(name),
    ("PUT", "/index"): add_index,
    ("PUT", "/points"): upsert,
    ("POST", "/points"): retrieve,
    ("POST", "/points/delete"): delete,
    ("POST", "/points/scroll"): scroll,
    ("POST", "/points/count"): count,
    ("POST", "/points/query"): query,
}


class Handler(BaseHTTPRequestHandler):
    client: QdrantClient
    turn: threading.Lock
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        found = re.fullmatch(r"/collections/([^/]+)(.*)", urlsplit(self.path).path)
        assert found is not None
        try:
            with self.turn:
                result = ROUTES[self.command, found[2]](self.client, found[1], body)
        except ValidationError:
            self.send(422, {"status": {"error": "not of the API"}})
        except ValueError as error:
            status = 404 if "not found" in str(error) else 409
            self.send(status, {"status": {"error": str(error)}})
        else:
            self.send(200, {"result": plain(result), "status": "ok", "time": 0.0})

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def send(self, status: int, answer: Any) -> None:
        encoded = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def plain(result: Any) -> Any:
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    if isinstance(result, dict):
        return {name: plain(value) for name, value in result.items()}
    return [plain(each) for each in result] if isinstance(result, list) else result


@contextmanager
def qdrant_server() -> Iterator[str]:
    """Yield the address of an empty server."""
    client = QdrantClient(":memory:", force_disable_check_same_thread=True)
    own = {"client": client, "turn": threading.Lock()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), own))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
