"""A client that takes answers while it sends, and the memory of what it goes through."""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx


class Stream:
    """Sends documents from a thread, at most `ahead` of the answers taken; leaves at the end of
    its context."""

    def __init__(self, http: httpx.Client, corpus: str, documents: int, ahead: int) -> None:
        self.documents = documents
        self.room = threading.Semaphore(ahead)
        self.is_sent = False
        self.connection = HTTPConnection(http.base_url.host, http.base_url.port, timeout=60)
        self.connection.putrequest("POST", f"/v1/corpora/{corpus}/documents")
        self.connection.putheader("Content-Type", "application/x-ndjson")
        self.connection.putheader("Transfer-Encoding", "chunked")
        self.connection.endheaders()
        self.sender = threading.Thread(target=self.send)

    def send(self) -> None:
        with suppress(OSError):  # the connection was closed
            for number in range(self.documents):
                self.room.acquire()
                document = {"id": f"d{number:05}", "text": f"Entry {number} tells of slate."}
                line = json.dumps(document).encode() + b"\n"
                self.connection.send(b"%x\r\n%s\r\n" % (len(line), line))
            self.connection.send(b"0\r\n\r\n")
            self.is_sent = True

    def take(self, count: int | None) -> list[dict[str, Any]]:
        """Take so many answers, or all that are left."""
        answers = []
        for line in itertools.islice(self.response, count):
            answers.append(json.loads(line))
            self.room.release()
        return answers

    def __enter__(self) -> Stream:
        self.sender.start()
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()
        self.room.release(self.documents)
        self.sender.join()


def resident_mib(*names: str) -> dict[str, int]:
    """Return the memory of the processes of each name, of the cluster that this process started."""
    found = dict.fromkeys(names, 0)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (process / "cmdline").read_text()
            for name in names:
                if title.startswith("ray::") and name in title and is_ours(process):
                    pages = int((process / "statm").read_text().split()[1])
                    found[name] += pages * os.sysconf("SC_PAGESIZE") // 2**20
    return found


def is_ours(process: Path) -> bool:
    """Whether a process descends from this one."""
    pid = int(process.name)
    while pid not in (0, os.getpid()):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid != 0
