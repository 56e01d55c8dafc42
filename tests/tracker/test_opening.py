"""What keeps a file from being opened, and never moves it; damage is another matter."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from pipeline.errors import Unavailable
from tests.tracker.stores import Hold, OpenStore
from tracker.errors import Locked
from tracker.store import TrackerStore


def files(path: Path) -> dict[str, bytes]:
    """What lies in the folder, without what says who has the file open, and what it holds."""
    beside = (f"{path.name}.lock", f"{path.name}.unsaved")
    return {
        file.name: file.read_bytes() for file in path.parent.iterdir() if file.name not in beside
    }


def refuse_without_touching(
    path: Path, reason: str, error: type[Unavailable] = Unavailable
) -> None:
    before = files(path)
    with pytest.raises(Unavailable, match=reason) as refused:
        TrackerStore.open(path, memory_limit="256MB", threads=1)
    assert type(refused.value) is error
    assert files(path) == before


def test_a_second_process_is_told_who_holds_the_file(path: Path, hold: Hold) -> None:
    refuse_without_touching(path, f"locked by another process .PID {hold(path)}.", Locked)


def test_a_lock_is_not_damage_whatever_the_path_says(tmp_path: Path, hold: Hold) -> None:
    path = tmp_path / "corrupt checksum" / "corrupt.duckdb"
    hold(path)
    refuse_without_touching(path, "locked", Locked)


def test_the_file_is_free_once_closed(open_store: OpenStore, path: Path) -> None:
    store = open_store()
    store.close()
    store.close()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [
            (1,),
            (2,),
            (3,),
        ]
    with pytest.raises(Unavailable, match="closed"):
        store.counts()


def test_a_file_of_another_kind_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"a shopping list" * 1000)
    refuse_without_touching(path, "not a DuckDB database")


def test_a_newer_storage_format_is_left_alone(open_store: OpenStore, path: Path) -> None:
    open_store().close()
    # The main header is 8 bytes of checksum, the magic word, and the version: words of 8 bytes
    # are multiplied by a constant and combined by xor, so one word's share can be exchanged.
    checksum, word = struct.unpack("<2Q", path.read_bytes()[:16])
    (newer,) = struct.unpack("<Q", b"DUCK" + struct.pack("<I", 1050))

    def share(value: int) -> int:
        return value * 0xBF58476D1CE4E5B9 % 2**64

    with path.open("r+b") as file:
        file.write(struct.pack("<2Q", checksum ^ share(word) ^ share(newer), newer))
    refuse_without_touching(path, "newer DuckDB")


def test_a_newer_schema_is_left_alone(open_store: OpenStore, path: Path) -> None:
    open_store().close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    refuse_without_touching(path, "newer version")


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything, so take its powers away for a while."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("forbidden", ["file", "folder"])
def test_a_file_without_permission_is_left_alone(forbidden: str) -> None:
    # Not under tmp_path, whose parents admit their owner alone.
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        path = Path(root) / "data" / "tracker.duckdb"
        TrackerStore.open(path, memory_limit="256MB", threads=1).close()
        before = files(path)
        target = path if forbidden == "file" else path.parent
        target.chmod(0)
        with without_privileges(), pytest.raises(Unavailable, match=r"[Pp]ermission denied"):
            TrackerStore.open(path, memory_limit="256MB", threads=1)
        target.chmod(0o755)
        assert files(path) == before


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable):
        TrackerStore.open(tmp_path / "file" / "t.duckdb", memory_limit="256MB", threads=1)
