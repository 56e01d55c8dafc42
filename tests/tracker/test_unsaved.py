from __future__ import annotations

from pathlib import Path

import pytest

from tracker.unsaved import Unsaved


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "db.wal"


@pytest.fixture
def unsaved(tmp_path: Path, log: Path) -> Unsaved:
    return Unsaved(tmp_path / "db.unsaved", log)


def grow(log: Path, size: int) -> None:
    with log.open("ab") as file:
        file.write(b"x" * size)


def test_it_counts_what_is_written_to_the_log(unsaved: Unsaved, log: Path) -> None:
    for records in (3, 4):
        unsaved.add(records)
        grow(log, 10)
    assert unsaved.count == 7


def test_it_begins_anew_when_the_log_does(unsaved: Unsaved, log: Path) -> None:
    unsaved.add(3)
    grow(log, 100)
    unsaved.add(4)
    log.write_bytes(b"x" * 10)
    assert unsaved.count == 0
    unsaved.add(5)
    grow(log, 10)
    assert unsaved.count == 5
    log.unlink()
    assert unsaved.count == 0


def test_the_next_owner_goes_on_from_it(unsaved: Unsaved, log: Path, tmp_path: Path) -> None:
    unsaved.add(3)
    grow(log, 10)
    unsaved.close()
    next_one = Unsaved(tmp_path / "db.unsaved", log)
    assert next_one.count == 3
    next_one.add(1)
    assert next_one.count == 4


def test_a_log_from_before_it_is_not_counted(log: Path, tmp_path: Path) -> None:
    grow(log, 10)
    unsaved = Unsaved(tmp_path / "db.unsaved", log)
    unsaved.add(1)
    grow(log, 10)
    assert unsaved.count is None
    log.unlink()
    unsaved.add(1)
    grow(log, 10)
    assert unsaved.count == 1


@pytest.mark.parametrize("content", [b"", b"garbage", b"-5"])
def test_what_is_no_number_is_no_count(content: bytes, log: Path, tmp_path: Path) -> None:
    grow(log, 10)
    (tmp_path / "db.unsaved").write_bytes(content)
    assert Unsaved(tmp_path / "db.unsaved", log).count is None
