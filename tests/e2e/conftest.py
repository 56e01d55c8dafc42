from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.serving import free_port

os.environ["RAY_AUTH_MODE"] = "disabled"


@pytest.fixture(scope="session")
def cluster() -> Iterator[int]:
    """One light Ray cluster for the tests that deploy variants from Python; the port that all of
    them are served on."""
    import ray
    from ray import serve

    ray.init(
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    # Once for all: a second start, with another port, would change nothing.
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield port
    serve.shutdown()  # type: ignore[no-untyped-call]
    ray.shutdown()
