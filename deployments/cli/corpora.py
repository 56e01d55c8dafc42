"""Looking at what is stored, and deleting it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from deployments.cli.arguments import AsJson, Corpus, Url
from deployments.cli.client import DEFAULT_URL, Client
from deployments.cli.console import console, one_line_errors

corpora = typer.Typer(help="Corpora.", no_args_is_help=True)
documents = typer.Typer(help="Documents of a corpus.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="the corpus")]
Id = Annotated[str, typer.Argument(help="the document's id")]
Ids = Annotated[list[str], typer.Argument(help="the documents' ids")]
Yes = Annotated[bool, typer.Option("--yes", help="without asking")]


@corpora.command("list")
def list_corpora(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show every corpus with its counts."""
    with one_line_errors(), Client(url) as client:
        found = list(client.corpora())
    if as_json:
        print(json.dumps({"corpora": found}))
    else:
        show(found, "corpus", "documents", "chunks")


@corpora.command("stats")
def count_corpus(corpus: Name, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Count what one corpus holds."""
    with one_line_errors(), Client(url) as client:
        found = client.corpus(corpus)
    if as_json:
        print(json.dumps(found))
    else:
        show([found], "corpus", "documents", "chunks")


@corpora.command("delete")
def drop_corpus(corpus: Name, yes: Yes = False, url: Url = DEFAULT_URL) -> None:
    """Delete a corpus with all its documents."""
    if not yes:
        typer.confirm(f"delete the corpus {corpus} with all its documents?", abort=True, err=True)
    with one_line_errors(), Client(url) as client:
        client.drop(corpus)
    console.print(f"{corpus}: deleted", markup=False)


@documents.command("list")
def list_documents(corpus: Corpus = "default", url: Url = DEFAULT_URL) -> None:
    """Print the ids of a corpus's documents, one a line."""
    with one_line_errors(), Client(url) as client:
        for document in client.documents(corpus):
            print(document["id"])


@documents.command("get")
def get_document(id: Id, corpus: Corpus = "default", url: Url = DEFAULT_URL) -> None:
    """Print a document as it is stored, as JSON."""
    with one_line_errors(), Client(url) as client:
        print(json.dumps(client.document(corpus, id), ensure_ascii=False, indent=2))


@documents.command("delete")
def delete_documents(ids: Ids, corpus: Corpus = "default", url: Url = DEFAULT_URL) -> None:
    """Delete documents."""
    with one_line_errors(), Client(url) as client:
        for id in ids:
            client.delete(corpus, id)
            console.print(f"{id}: deleted", markup=False)


def show(rows: list[dict[str, Any]], *columns: str) -> None:
    """Print a table; what cannot be counted is a dash."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*("-" if row[one] is None else escape(str(row[one])) for one in columns))
    console.print(table)
