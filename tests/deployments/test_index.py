"""Which engine a configuration opens, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployments.config import AppArgs, IndexArgs
from deployments.index import is_local, open_index
from deployments.options import ConfigError
from deployments.stores.lance import LanceStore
from deployments.stores.protocol import ENGINE_LEGS
from deployments.stores.qdrant import QdrantStore

SERVER = {"engine": "qdrant", "uri": "https://qdrant.example:6333"}


def test_each_engine_has_the_legs_that_the_configuration_is_told(tmp_path: Path) -> None:
    lance = open_index(IndexArgs(uri=str(tmp_path)))
    qdrant = open_index(IndexArgs.model_validate(SERVER))
    assert (type(lance), lance.legs) == (LanceStore, ENGINE_LEGS["lancedb"])
    assert (type(qdrant), qdrant.legs) == (QdrantStore, ENGINE_LEGS["qdrant"])


def test_a_server_is_no_local_path() -> None:
    assert not is_local(IndexArgs.model_validate(SERVER))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"engine": "qdrant"}, "engine qdrant needs uri: https://HOST:PORT"),
        ({"engine": "qdrant", "uri": "/data"}, "engine qdrant needs uri: https://HOST:PORT"),
        ({"engine": "qdrant", "uri": "https://"}, "engine qdrant needs uri: https://HOST:PORT"),
        ({"uri": "https://x:6333"}, "needs engine: qdrant"),
        ({"api_key_env": "KEY"}, "needs engine: qdrant"),
        ({"grpc_port": 6334}, "needs engine: qdrant"),
        ({**SERVER, "uri": "http://x:6333", "api_key_env": "KEY"}, "a key goes over https only"),
        (
            {**SERVER, "uri": "http://127.evil.example:6333", "api_key_env": "KEY"},
            "a key goes over https only",
        ),
        ({**SERVER, "collection": "a/b"}, "collection"),
    ],
)
def test_what_does_not_fit_the_engine_is_refused(index: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AppArgs.model_validate({"index": index})


@pytest.mark.parametrize("host", ["localhost:6333", "127.0.0.1:6333", "[::1]:6333"])
def test_on_this_machine_a_key_needs_no_tls(host: str) -> None:
    uri = f"http://{host}"
    AppArgs.model_validate({"index": {**SERVER, "uri": uri, "api_key_env": "KEY"}})


def test_a_key_that_is_not_there_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    args = IndexArgs.model_validate({**SERVER, "api_key_env": "ONEPASS_QDRANT_KEY"})
    monkeypatch.delenv("ONEPASS_QDRANT_KEY", raising=False)
    with pytest.raises(ConfigError, match="environment variable ONEPASS_QDRANT_KEY is not set"):
        open_index(args)
    monkeypatch.setenv("ONEPASS_QDRANT_KEY", "s3cret")
    assert isinstance(open_index(args), QdrantStore)


def test_a_sparse_model_needs_an_engine_with_that_leg() -> None:
    embedder = {"sparse_model": "splade-tiny-msmarco"}
    with pytest.raises(ConfigError, match=r"sparse leg \(qdrant\), and index.engine is lancedb"):
        AppArgs.model_validate({"embedder": embedder})
    args = AppArgs.model_validate(
        {"embedder": embedder, "index": SERVER, "search": {"legs": ["sparse", "bm25"]}}
    )
    assert args.parts.sparse_model
    assert not AppArgs.model_validate({"embedder": None, "index": SERVER}).parts.sparse_model
