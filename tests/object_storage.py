"""A local server that speaks S3, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import Request, urlopen

BUCKET = "onepass"


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    url: str

    def uri(self, folder: str) -> str:
        return f"s3://{BUCKET}/{folder}"

    @property
    def options(self) -> dict[str, str]:
        """As `index.storage_options` would have them."""
        return {
            "aws_endpoint": self.url,
            "aws_region": "us-east-1",
            "allow_http": "true",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }


@contextmanager
def object_storage() -> Iterator[ObjectStorage]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        storage = ObjectStorage(f"http://127.0.0.1:{port}")
        try:
            _make_bucket(storage.url, process)
            yield storage
        finally:
            process.kill()


def _make_bucket(url: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            urlopen(Request(f"{url}/{BUCKET}", method="PUT")).close()
            return
        except URLError:  # it does not listen yet
            time.sleep(0.05)
    raise RuntimeError("the S3 server has ended")
