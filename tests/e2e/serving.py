"""Running the application as its user does: `serve run` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from deployments.folders import models_folder

ROOT = Path(__file__).parents[2]
START_S = 180


class Server:
    """The shipped serve_config.yaml on a free port, with models pulled and data of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        models_folder().mkdir(parents=True, exist_ok=True)
        (self.home / "models").symlink_to(models_folder())
        self.url = f"http://127.0.0.1:{free_port()}"
        self.config = folder / "serve_config.yaml"
        self.config.write_text(
            (ROOT / "serve_config.yaml")
            .read_text()
            .replace("port: 8000", f"port: {self.url.rsplit(':', 1)[1]}")
        )
        self.log = folder / "serve.log"
        self.http = httpx.Client(base_url=self.url, timeout=60)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "ONEPASS_HOME": str(self.home),
            "ONEPASS_URL": self.url,
            "RAY_AUTH_MODE": "disabled",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def start(self) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["serve", "run", str(self.config)],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Where the tests run in the background SIGINT is ignored, and that is inherited.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.wait_until(self.is_ready, START_S)

    def stop(self) -> None:
        """Stop as Ctrl-C does, and see that no replica stays behind."""
        replicas = self.pids()
        self.http.close()
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=60)
        finally:
            self._process.kill()
            self._process.wait()
        self.wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in replicas), 30)

    def pids(self) -> list[int]:
        deployments = self.status()["deployments"].values()
        return [replica["pid"] for replicas in deployments for replica in replicas]

    def is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"serve run ended:\n{self.log.read_text()[-4000:]}")
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def wait_until(self, condition: Any, seconds: float) -> None:
        give_up = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > give_up:
                raise AssertionError(f"waited in vain:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.25)

    def onepass(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["onepass", *arguments],
            cwd=ROOT,
            env={**self.environment, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def deploy(self, config: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Run `serve deploy` with a changed configuration against the running cluster."""
        dashboard = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text())
        assert dashboard is not None
        changed = self.config.with_name("changed.yaml")
        changed.write_text(yaml.safe_dump(config))
        return subprocess.Popen(
            ["serve", "deploy", "--address", dashboard.group(), str(changed)],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def search(self, query: str, **options: Any) -> dict[str, Any]:
        response = self.http.post("/v1/search", json={"query": query, **options})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def put(self, corpus: str, *documents: dict[str, Any]) -> httpx.Response:
        return self.http.put(f"/v1/corpora/{corpus}/documents", json={"documents": documents})

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.http.get("/v1/status").json()
        return answer

    def configured(self) -> dict[str, Any]:
        config: dict[str, Any] = yaml.safe_load(self.config.read_text())
        return config


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
