from __future__ import annotations

from pathlib import Path

import pytest

from deployments.cli.readers import UnreadableFile, find_files, read_documents


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_a_folder_gives_its_readable_files_named_by_their_relative_path(tmp_path: Path) -> None:
    for name in ("b.md", "sub/a.txt", "data.jsonl", "image.png", ".hidden/x.md", "sub/.y.txt"):
        write(tmp_path, name, "x")
    assert [name for name, _ in find_files([tmp_path])] == ["b.md", "data.jsonl", "sub/a.txt"]


def test_a_single_file_is_named_by_its_name(tmp_path: Path) -> None:
    file = write(tmp_path, "sub/a.txt", "x")
    assert find_files([file]) == [("a.txt", file)]


def test_a_markdown_heading_becomes_the_title(tmp_path: Path) -> None:
    file = write(tmp_path, "a.md", "\ufeff# Parking\n\nBehind the barn.\n")
    assert list(read_documents("a.md", file)) == [
        {"id": "a.md", "text": "Behind the barn.", "title": "Parking", "source": "a.md"}
    ]


def test_markdown_that_is_only_a_heading_keeps_it_as_text(tmp_path: Path) -> None:
    file = write(tmp_path, "a.md", "# Parking\n")
    (document,) = read_documents("a.md", file)
    assert isinstance(document, dict)
    assert (document["title"], document["text"]) == (None, "# Parking\n")


def test_json_lines_give_a_document_each_and_missing_ids_are_their_lines(tmp_path: Path) -> None:
    lines = ('{"id": "x", "text": "a"}', "", '{"text": "b", "source": "s"}', '{"_id": "y"}')
    file = write(tmp_path, "f.jsonl", "\n".join(lines))
    assert list(read_documents("f.jsonl", file)) == [
        {"id": "x", "source": "f.jsonl", "text": "a"},
        {"id": "f.jsonl:3", "source": "s", "text": "b"},
        {"id": "y", "source": "f.jsonl"},
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("a.jsonl", b"{", "line 1: not JSON"),
        ("a.jsonl", b'{"metadata": {"n": NaN}}', "line 1: not JSON"),
        ("a.jsonl", b"[1]\n", "line 1: not a JSON object"),
        ("a.pdf", b"x", "only .jsonl, .md, .txt are read"),
    ],
)
def test_what_is_no_document_is_named_with_its_place(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    file = write(tmp_path, name, content)
    (problem,) = read_documents(name, file)
    assert isinstance(problem, UnreadableFile)
    assert message in str(problem)


def test_a_bad_line_does_not_hide_the_lines_after_it(tmp_path: Path) -> None:
    file = write(tmp_path, "f.jsonl", '{"id": "x"}\n{\n{"id": "y", "text": "a\u2028b"}\n')
    first, problem, last = read_documents("f.jsonl", file)
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    assert (first["id"], last["id"], last["text"]) == ("x", "y", "a\u2028b")
    assert "line 2" in str(problem)


def test_two_files_with_one_name_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "a/readme.md", "x")
    write(tmp_path, "b/readme.md", "y")
    with pytest.raises(UnreadableFile, match=r"a/readme\.md and .*b/readme\.md"):
        find_files([tmp_path / "a", tmp_path / "b"])


def test_an_empty_file_holds_no_document(tmp_path: Path) -> None:
    assert list(read_documents("a.txt", write(tmp_path, "a.txt", " \n"))) == []
