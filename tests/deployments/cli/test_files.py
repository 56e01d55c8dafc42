from __future__ import annotations

from pathlib import Path

import pytest

from deployments.cli.files import Choice, find_files
from deployments.cli.pieces import UnreadableFile

ALL = Choice((".md", ".txt", ".jsonl"))


def make(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")


def names_in(*paths: Path, choice: Choice = ALL) -> list[str]:
    return [name for name, _ in find_files(paths, choice)]


def test_a_folder_gives_its_readable_files_named_by_their_relative_path(tmp_path: Path) -> None:
    make(tmp_path, "b.md", "sub/a.TXT", "data.jsonl", "image.png", ".hidden/x.md", "sub/.y.txt")
    assert list(find_files([tmp_path], ALL)) == [
        ("b.md", tmp_path / "b.md"),
        ("data.jsonl", tmp_path / "data.jsonl"),
        ("sub/a.TXT", tmp_path / "sub/a.TXT"),
    ]


def test_a_file_that_is_given_is_read_whatever_its_name(tmp_path: Path) -> None:
    make(tmp_path, ".hidden/a.png")
    file = tmp_path / ".hidden/a.png"
    assert list(find_files([file], ALL)) == [("a.png", file)]


def test_patterns_choose_files_of_a_folder(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.txt", "drafts/c.md", "drafts/deep/d.md", "sub/drafts/e.md")
    only = Choice(ALL.suffixes, include=["*.md"])
    assert names_in(tmp_path, choice=only) == [
        "a.md",
        "drafts/c.md",
        "drafts/deep/d.md",
        "sub/drafts/e.md",
    ]
    without = Choice(ALL.suffixes, include=["*.md"], exclude=["drafts/*"])
    assert names_in(tmp_path, choice=without) == ["a.md", "sub/drafts/e.md"]


def test_a_file_that_two_paths_give_is_read_once(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "sub/b.md")
    assert names_in(tmp_path, tmp_path / "a.md", tmp_path / "sub", tmp_path) == ["a.md", "sub/b.md"]
    assert names_in(tmp_path / "sub", tmp_path) == ["b.md", "a.md"]


def test_a_hidden_file_that_is_given_beside_its_folder_is_read(tmp_path: Path) -> None:
    make(tmp_path, "a.md", ".b.md")
    assert names_in(tmp_path, tmp_path / ".b.md") == ["a.md", ".b.md"]


def test_two_files_with_one_name_are_refused_by_name(tmp_path: Path) -> None:
    make(tmp_path, "a/readme.md", "b/readme.md")
    with pytest.raises(UnreadableFile, match=r"a/readme\.md and .*b/readme\.md"):
        names_in(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UnreadableFile, match=r"a/readme\.md and .*b/readme\.md"):
        names_in(tmp_path / "a/readme.md", tmp_path / "b")
    # What is not read is in nobody's way.
    make(tmp_path, "c/.hidden/readme.md", "d/.hidden/readme.md")
    assert names_in(tmp_path / "c", tmp_path / "d") == []


def test_a_link_that_leads_nowhere_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to(tmp_path / "absent.md")
    (tmp_path / "loop").symlink_to(tmp_path)
    make(tmp_path, "b.md")
    assert names_in(tmp_path) == ["b.md"]
