"""Which index engine the configuration names, and where it lies."""

from __future__ import annotations

from deployments.config import IndexArgs
from deployments.folders import data_folder
from deployments.stores.protocol import Store


def index_uri(args: IndexArgs) -> str:
    return args.uri or str(data_folder() / "index")


def is_local(args: IndexArgs) -> bool:
    return "://" not in index_uri(args)


def open_index(args: IndexArgs, *, dimension: int | None, read_only: bool) -> Store:
    """Open the index. `dimension` is that of the vectors to write; readers need none."""
    # The engine is imported only where it is used: the Composer's node needs none.
    from deployments.stores.lance import LanceStore

    return LanceStore(
        index_uri(args),
        dimension=dimension,
        storage_options=dict(args.storage_options) or None,
        read_only=read_only,
    )
