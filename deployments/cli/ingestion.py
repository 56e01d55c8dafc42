"""The command that stores files, and what it shows meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from deployments.cli.arguments import Corpus, Url
from deployments.cli.client import DEFAULT_URL, Client, ClientError
from deployments.cli.console import console, errors, one_line_errors, stop
from deployments.cli.encodings import check_encoding
from deployments.cli.files import Choice, find_files
from deployments.cli.ingesting import Report, ingest, read_all
from deployments.cli.pieces import Columns, Reading, UnreadableFile
from deployments.cli.readers import READERS

Paths = Annotated[list[Path], typer.Argument(help=f"files or folders: {', '.join(READERS)}")]
Include = Annotated[
    list[str] | None, typer.Option(help="only files of a folder like this: 'docs/*.md'")
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="no files of a folder like this: 'drafts/*'")
]
Column = "column of a table, or field of JSON lines, that holds the "
IdColumn = Annotated[str | None, typer.Option(help=f"{Column}id; else id")]
TextColumnName = Annotated[str | None, typer.Option(help=f"{Column}text; else text")]
TitleColumn = Annotated[str | None, typer.Option(help=f"{Column}title; else title")]
SourceColumn = Annotated[str | None, typer.Option(help=f"{Column}source; else source")]
Encoding = Annotated[str | None, typer.Option(help="of files that do not tell it; else utf-8")]
Delimiter = Annotated[str | None, typer.Option(help="between cells; else , and in .tsv a tab")]

INTERRUPTED = 130  # what a shell says of a command that was interrupted


def ingest_files(
    paths: Paths,
    corpus: Corpus = "default",
    include: Include = None,
    exclude: Exclude = None,
    id_column: IdColumn = None,
    text_column: TextColumnName = None,
    title_column: TitleColumn = None,
    source_column: SourceColumn = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Store files in a corpus. Run it again after a stop or an edit: unchanged ones are skipped."""
    absent = [str(path) for path in paths if not path.exists()]
    if absent:
        stop(f"no such file or folder: {', '.join(absent)}")
    if delimiter is not None and len(delimiter) != 1:
        stop("--delimiter must be one character", status=2)
    choice = Choice(READERS, include or (), exclude or ())
    columns = Columns(id_column, text_column, title_column, source_column)
    with one_line_errors():
        check_encoding(encoding or "utf-8")
        # Files are looked up twice rather than remembered: there may be millions.
        total = sum(file.stat().st_size for _, file in find_files(paths, choice))
    store(find_files(paths, choice), Reading(columns, encoding, delimiter), corpus, url, total)


def store(
    files: Iterable[tuple[str, Path]], reading: Reading, corpus: str, url: str, total: int
) -> None:
    """Send the documents of files, of `total` bytes, and show how far it is and how it ended."""
    report = Report(say)
    try:
        with Client(url) as client, progress_bar() as progress:
            bar = progress.add_task("ingesting", total=total, documents="")
            for done in ingest(client, corpus, read_all(files, reading), report):
                seconds = progress.tasks[bar].elapsed or 1.0
                progress.update(bar, advance=done, documents=pace(report.total, seconds))
    except KeyboardInterrupt:
        give_up("stopped", corpus, report, INTERRUPTED)
    except (ClientError, UnreadableFile) as error:
        give_up(str(error), corpus, report, 1)
    console.print(f"{corpus}: {report}", markup=False)
    if report.counts["failed"]:
        raise typer.Exit(1)


def progress_bar() -> Progress:
    """By bytes of files, which are known before the documents in them are."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[documents]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
    )


def pace(documents: int, seconds: float) -> str:
    return f"{documents:,} documents, {documents / seconds:,.1f}/s"


def give_up(reason: str, corpus: str, report: Report, status: int) -> NoReturn:
    """Say why, and how to go on: the server has each document whole or not at all."""
    say(reason)
    so_far = f"{corpus}: {report}; " if report.total else ""
    errors.print(f"{so_far}run the same command again to go on", markup=False, soft_wrap=True)
    raise typer.Exit(status)


def say(problem: str) -> None:
    errors.print(problem, style="red", markup=False, soft_wrap=True)
