from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from deployments.cli.main import app
from tests.deployments.cli.server import SmallServer

COUNTS = {"corpus": "docs", "documents": 2, "chunks": 5}
PAGES = [
    {"items": [{"id": "a", "title": None}], "next": "t"},
    {"items": [{"id": "b/c d", "title": "T"}], "next": None},
]


def run(*arguments: str, typed: str = "", status: int = 0) -> tuple[str, list[tuple[str, str]]]:
    """What a command prints, and its requests."""
    pages = iter(PAGES)

    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "DELETE":
            return 200, {"deleted": True}
        if path.startswith("/v1/corpora?"):
            other = {"corpus": "new", "documents": None, "chunks": None}
            return 200, {"items": [COUNTS, other], "next": None}
        if path.startswith("/v1/corpora/docs/documents?"):
            return 200, next(pages)
        return 200, COUNTS if path == "/v1/corpora/docs" else {"id": "b/c d", "chunks": ["é"]}

    with SmallServer(answer) as server:
        result = CliRunner().invoke(app, [*arguments, "--url", server.url], input=typed)
    assert result.exit_code == status, result.output
    return result.stdout, [request[:2] for request in server.requests]


def test_corpora_are_listed_with_their_counts() -> None:
    shown, _ = run("corpora", "list")
    assert [line.split() for line in shown.splitlines()] == [
        ["corpus", "documents", "chunks"],
        ["docs", "2", "5"],
        ["new", "-", "-"],
    ]
    assert json.loads(run("corpora", "list", "--json")[0])["corpora"][0] == COUNTS


def test_one_corpus_is_counted() -> None:
    shown, requests = run("corpora", "stats", "docs")
    assert shown.splitlines()[1].split() == ["docs", "2", "5"]
    assert requests == [("GET", "/v1/corpora/docs")]
    assert json.loads(run("corpora", "stats", "docs", "--json")[0]) == COUNTS


def test_a_corpus_is_deleted_only_if_it_is_meant() -> None:
    assert run("corpora", "delete", "docs", typed="n\n", status=1)[1] == []
    assert run("corpora", "delete", "docs", typed="y\n")[1] == [("DELETE", "/v1/corpora/docs")]
    shown, requests = run("corpora", "delete", "a/b", "--yes")
    assert (shown, requests) == ("a/b: deleted\n", [("DELETE", "/v1/corpora/a%2Fb")])


def test_documents_are_listed_to_the_last_page() -> None:
    shown, requests = run("documents", "list", "--corpus", "docs")
    assert shown == "a\nb/c d\n"
    assert [path for _, path in requests] == [
        "/v1/corpora/docs/documents?limit=1000",
        "/v1/corpora/docs/documents?limit=1000&next=t",
    ]


def test_a_document_is_shown_as_it_is_stored() -> None:
    shown, requests = run("documents", "get", "b/c d", "--corpus", "docs")
    assert json.loads(shown) == {"id": "b/c d", "chunks": ["é"]}
    assert "é" in shown
    assert requests == [("GET", "/v1/corpora/docs/documents/b%2Fc%20d")]


def test_documents_are_deleted_one_by_one() -> None:
    shown, requests = run("documents", "delete", "a", "b#1?", "--corpus", "docs")
    assert shown == "a: deleted\nb#1?: deleted\n"
    assert requests == [
        ("DELETE", "/v1/corpora/docs/documents/a"),
        ("DELETE", "/v1/corpora/docs/documents/b%231%3F"),
    ]
