"""Which index engine the configuration names, and where it lies."""

from __future__ import annotations

import os

from deployments.config import IndexArgs
from deployments.folders import data_folder
from deployments.options import ConfigError
from deployments.stores.protocol import Store
from pipeline.vectors import NO_ENCODERS, Encoders


def index_uri(args: IndexArgs) -> str:
    return args.uri or str(data_folder() / "index")


def is_local(args: IndexArgs) -> bool:
    return "://" not in index_uri(args)


def open_index(
    args: IndexArgs,
    *,
    dimension: int | None = None,
    encoders: Encoders = NO_ENCODERS,
    read_only: bool = False,
) -> Store:
    """Open the index. `dimension` is that of the vectors to write, and `encoders` are the models
    that make them; readers need neither.

    The engine is imported only where it is used: the Composer's node needs none.
    """
    if args.engine == "qdrant":
        return open_qdrant(args, dimension, encoders, read_only)
    from deployments.stores.lance import LanceStore

    return LanceStore(
        index_uri(args),
        dimension=dimension,
        storage_options=dict(args.storage_options) or None,
        read_only=read_only,
        encoders=encoders,
        ann_min_rows=args.ann_min_rows,
    )


def open_qdrant(
    args: IndexArgs, dimension: int | None, encoders: Encoders, read_only: bool
) -> Store:
    """Raises ConfigError where its packages or the key are missing."""
    try:
        from deployments.stores.qdrant import QdrantStore
        from deployments.stores.qdrant_collection import connect_to
    except ImportError as error:
        raise ConfigError(
            "index.engine: qdrant needs more packages: pip install 'onepass[qdrant]'"
        ) from error
    uri, key = index_uri(args), read_key(args)
    return QdrantStore(
        lambda: connect_to(uri, key, args.grpc_port),
        args.collection,
        dimension,
        read_only=read_only,
        encoders=encoders,
    )


def read_key(args: IndexArgs) -> str | None:
    if args.api_key_env is None:
        return None
    key = os.environ.get(args.api_key_env, "").strip()
    if not key:
        raise ConfigError(
            f"index.api_key_env: the environment variable {args.api_key_env} is not set"
        )
    return key
