from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.clients.blocks import RESULTS, SETUP, Block
from tests.clients.interpreter import Interpreter, Outcome, is_installed
from tests.e2e.serving import Server

KEY = "op_one-of-the-clients-tests"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The shipped configuration, with a key to be sent and a queue that is soon full."""
    running = Server(tmp_path_factory.mktemp("serve"))
    config = running.configured()
    args = config["applications"][0]["args"]
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    key = {"name": "clients", "sha256": digest, "tenant": "default", "role": "admin"}
    args["auth"] = {"api_keys": [key]}
    args["scorer"]["max_queued_tokens"] = 2_000
    running.config.write_text(yaml.safe_dump(config))
    running.http.headers["Authorization"] = f"Bearer {KEY}"
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def interpreters() -> Iterator[dict[str, Interpreter]]:
    """Those that run, by the group of clients that each has installed."""
    running: dict[str, Interpreter] = {}
    yield running
    for interpreter in running.values():
        interpreter.close()


@pytest.fixture
def run(
    server: Server, interpreters: dict[str, Interpreter], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Outcome]:
    """Run a block against the server, with other values for names of the page's first block."""

    def run_block(block: Block, **names: Any) -> Outcome:
        group = block.group
        if not is_installed(group):
            pytest.skip(f"no .venv-clients/{group}: scripts/clients {group} makes it")
        if group not in interpreters:
            interpreters[group] = Interpreter(group, tmp_path_factory.mktemp(group))
        given = {"URL": server.url, "KEY": KEY, **names}
        outcome = interpreters[group].run(SETUP, block.text, given, list(RESULTS))
        assert outcome.refused == [], "a client asked the internet"
        return outcome

    return run_block
