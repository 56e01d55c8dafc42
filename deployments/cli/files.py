"""Finding the files to read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from deployments.cli.pieces import UnreadableFile


@dataclass(frozen=True, slots=True)
class Choice:
    """Which files of a folder are read: by how they end, and by patterns of their names.

    In a pattern `*` stands for anything, slashes too. One that is excluded is out, even if it is
    included.
    """

    suffixes: Collection[str]
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def takes(self, name: str) -> bool:
        if any(part.startswith(".") for part in name.split("/")):
            return False
        if self.include and not any(fnmatchcase(name, pattern) for pattern in self.include):
            return False
        if any(fnmatchcase(name, pattern) for pattern in self.exclude):
            return False
        return Path(name).suffix.lower() in self.suffixes


def find_files(paths: Sequence[Path], choice: Choice) -> Iterator[tuple[str, Path]]:
    """Yield (name, file) for each file and each chosen one under each folder, each once.

    A name is the path relative to the folder given, with forward slashes: it becomes the
    document's id, so that the same folder gives the same ids on every run and machine. Files of a
    folder come by name, before its folders; none is held in memory but one folder's. Raises
    UnreadableFile for two files that would have the same name.
    """
    for position, path in enumerate(paths):
        before = paths[:position]
        for name, file in files_of(path, choice):
            if any(name_in(other, file, choice) for other in before):
                continue
            for other in before:
                check_distinct(name, file, other / name if other.is_dir() else other, other, choice)
            yield name, file


def files_of(path: Path, choice: Choice) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield path.name, path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            relative = file.relative_to(path).as_posix()
            if choice.takes(relative) and file.is_file():
                yield relative, file


def name_in(path: Path, file: Path, choice: Choice) -> str | None:
    """Return the name by which a path gives a file, None if it does not."""
    if not path.is_dir():
        return path.name if path.absolute() == file.absolute() else None
    try:
        name = file.absolute().relative_to(path.absolute()).as_posix()
    except ValueError:
        return None
    return name if choice.takes(name) else None


def check_distinct(name: str, file: Path, rival: Path, path: Path, choice: Choice) -> None:
    """Raise UnreadableFile if another path given has a file of the same name."""
    if rival.is_file() and name_in(path, rival, choice) == name:
        raise UnreadableFile(f"{rival} and {file} would both be the document {name}")
