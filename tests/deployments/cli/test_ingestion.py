from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deployments.cli import client
from deployments.cli.main import app
from tests.deployments.cli.server import SmallServer, refusal


class Corpus:
    """Stores what it is sent, but answers some of its first requests as a test tells it to."""

    def __init__(self, *first: tuple[int, Any] | None) -> None:
        self.first = list(first)
        self.documents: dict[str, Any] = {}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        assert (method, path) == ("PUT", "/v1/corpora/docs/documents")
        told = self.first.pop(0) if self.first else None
        if told is not None:
            return told
        return 200, {"documents": [self.put(document) for document in body["documents"]]}

    def put(self, document: dict[str, Any]) -> dict[str, Any]:
        same = self.documents.get(document["id"]) == document
        self.documents[document["id"]] = document
        status = "unchanged" if same else "stored"
        return {"id": document["id"], "status": status, "chunks": 1, "error": None}


def run(corpus: Corpus, *arguments: str | Path, status: int = 0) -> Result:
    with SmallServer(corpus.answer) as server:
        command = ["ingest", *map(str, arguments), "--corpus", "docs", "--url", server.url]
        result = CliRunner().invoke(app, command)
    assert result.exit_code == status, result.output
    return result


def test_a_folder_is_stored_and_a_second_run_stores_what_changed(tmp_path: Path) -> None:
    corpus = Corpus()
    (tmp_path / "a.md").write_text("# A\n\nText.")
    (tmp_path / "b.html").write_text("<title>B</title><p>Text.")
    (tmp_path / "c.csv").write_text("text,year\none,2020\ntwo,2021\n")
    assert run(corpus, tmp_path).stdout == "docs: 4 stored\n"
    assert sorted(corpus.documents) == ["a.md", "b.html", "c.csv:1", "c.csv:2"]
    (tmp_path / "a.md").write_text("# A\n\nAnother text.")
    assert run(corpus, tmp_path).stdout == "docs: 1 stored, 3 unchanged\n"


def test_options_say_which_files_and_which_columns(tmp_path: Path) -> None:
    corpus = Corpus()
    (tmp_path / "a.csv").write_bytes("key;body;x\n7;é;1\n".encode("cp1252"))
    (tmp_path / "b.txt").write_text("no")
    (tmp_path / "c.csv").write_text("no")
    options = ("--include", "*.csv", "--exclude", "c*", "--delimiter", ";", "--encoding", "cp1252")
    columns = ("--id-column", "key", "--text-column", "body")
    assert run(corpus, tmp_path, *options, *columns).stdout == "docs: 1 stored\n"
    assert corpus.documents == {
        "7": {
            "id": "7",
            "text": "é",
            "title": None,
            "source": "a.csv",
            "metadata": {"x": 1},
        }
    }


def test_what_cannot_be_read_is_named_and_the_command_fails(tmp_path: Path) -> None:
    corpus = Corpus()
    (tmp_path / "a.txt").write_bytes(b"\xff")
    (tmp_path / "b.txt").write_text("Text.")
    result = run(corpus, tmp_path, status=1)
    assert result.stdout == "docs: 1 failed, 1 stored\n"
    assert "it is not UTF-8, or what --encoding says" in result.stderr


def test_a_server_that_is_too_busy_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    (tmp_path / "a.txt").write_text("Text.")
    busy = refusal("full", "", 429)
    corpus = Corpus(*[busy] * (client.OVERLOAD_TRIES + 5))
    assert run(corpus, tmp_path).stdout == "docs: 1 stored\n"
    assert pauses == [1.0] * (client.OVERLOAD_TRIES + 5)


def test_a_run_that_breaks_off_says_how_far_it_was_and_how_to_go_on(tmp_path: Path) -> None:
    lines = "".join(f'{{"id": "{number}", "text": "t"}}\n' for number in range(100))
    (tmp_path / "a.jsonl").write_text(lines)
    corpus = Corpus(None, refusal("Indexer failed", "", 503))
    result = run(corpus, tmp_path, status=1)
    assert "503 Indexer failed" in result.stderr
    assert "docs: 64 stored; run the same command again to go on" in result.stderr
    assert run(corpus, tmp_path).stdout == "docs: 36 stored, 64 unchanged\n"


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("Text.")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(client.Client, "put", interrupt)
    result = run(Corpus(), tmp_path, status=130)
    assert result.stderr.endswith("stopped\nrun the same command again to go on\n")


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (["absent"], "no such file or folder: absent", 1),
        ([".", "--encoding", "klingon"], "no encoding of text is called so", 1),
        ([".", "--delimiter", "::"], "--delimiter must be one character", 2),
    ],
)
def test_what_is_wrong_with_the_command_is_said_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
    status: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in run(Corpus(), *arguments, status=status).stderr
