from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ["RAY_AUTH_MODE"] = "disabled"


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """One light Ray cluster for the tests that deploy variants from Python."""
    import ray
    from ray import serve

    ray.init(
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    yield
    serve.shutdown()  # type: ignore[no-untyped-call]
    ray.shutdown()
