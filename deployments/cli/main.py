"""The commands. Each is a thin shell around a function elsewhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from deployments.cli import calibrating, reports
from deployments.cli.arguments import AsJson, Corpus, Url
from deployments.cli.checking import check_file
from deployments.cli.client import DEFAULT_URL, Client
from deployments.cli.console import console, errors, one_line_errors, stop
from deployments.cli.corpora import corpora, documents
from deployments.cli.evaluating import STAGES, evaluate_stages, remarks, stage_table
from deployments.cli.ingestion import ingest_files
from deployments.cli.judgements import JudgedQuery, read_judged
from deployments.cli.keys import keys
from deployments.cli.models import models

app = typer.Typer(
    help="Retrieve, correct, rerank.", no_args_is_help=True, pretty_exceptions_enable=False
)
app.command("ingest")(ingest_files)
app.add_typer(corpora, name="corpora")
app.add_typer(documents, name="documents")
app.add_typer(models, name="models")
app.add_typer(keys, name="keys")
app.command()(reports.report)

QUERIES = "judged queries: JSON lines with _id and text"
QRELS = "their judgements: query id, document id and grade a line, parted by tabs"
Limit = Annotated[int | None, typer.Option(min=1, help="only the first so many judged queries")]
SNIPPET = 160


@app.command()
def check(
    config: Annotated[Path, typer.Argument(help="a Serve configuration file")],
) -> None:
    """Validate a configuration file: what is wrong with it, in one line."""
    with one_line_errors():
        check_file(config)
    console.print(f"{config}: sound", markup=False)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="a question or keywords")],
    corpus: Corpus = "default",
    k: Annotated[int, typer.Option("--k", "-k", help="hits to show")] = 5,
    correct: Annotated[bool | None, typer.Option("--correct/--no-correct")] = None,
    rerank: Annotated[bool | None, typer.Option("--rerank/--no-rerank")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Ask, and show how ranks moved, the grades, scores and a snippet of each hit."""
    request: dict[str, Any] = {"query": query, "corpus": corpus, "final_top_k": k}
    request |= {"include_trace": True, "include_context": False}
    request |= {} if correct is None else {"corrective": correct}
    request |= {} if rerank is None else {"rerank": rerank}
    with one_line_errors(), Client(url) as client:
        answer = client.search(request)
    console.print(hit_table(answer))
    degraded = f" · degraded: {', '.join(answer['degraded'])}" if answer["degraded"] else ""
    console.print(
        f"verdict {answer['verdict']} · {answer['forward_passes']} forward passes · "
        f"{answer['timings_ms']['total']:.0f} ms · {answer['retrieval_id']}{degraded}",
        markup=False,
    )


def hit_table(answer: dict[str, Any]) -> Table:
    """One row a hit; `from` is its rank before correction and reranking."""
    before = {hit["id"]: hit["rank"] for hit in answer["trace"]["retrieved_hits"]}
    table = Table(box=None, pad_edge=False)
    for column in ("rank", "from", "grade", "score", "document", "text"):
        table.add_column(column, justify="right" if column in ("rank", "from") else "left")
    for hit in answer["hits"]:
        table.add_row(
            str(hit["rank"]),
            movement(before.get(hit["id"]), hit["rank"]),
            hit["grade"] or "-",
            f"{hit['score']:.3f} {hit['score_kind']}",
            escape(hit["document_id"]),
            escape(" ".join(hit["text"].split())[:SNIPPET]),
        )
    return table


def movement(old: int | None, new: int) -> str:
    """Say where a hit came from; one that a continuation brought is new."""
    if old is None:
        return "new"
    return f"{old} " + ("↑" if new < old else "↓" if new > old else "=")


@app.command()
def purge(
    before: Annotated[str, typer.Option(help="RFC 3339 time with a zone, or a date (UTC)")],
    dry_run: Annotated[bool, typer.Option(help="only count")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete tracked retrievals older than a time, with their hits and feedback."""
    moment = before if "T" in before else f"{before}T00:00:00Z"
    with one_line_errors(), Client(url) as client:
        answer = client.purge(moment, dry_run)
    counts = ", ".join(f"{count} {what}" for what, count in answer["deleted"].items())
    console.print(f"{'would delete' if dry_run else 'deleted'}: {counts}")


@app.command()
def compact(url: Url = DEFAULT_URL) -> None:
    """Write the tracker's file anew, so that it gives back the space of what was purged."""
    with one_line_errors(), Client(url) as client:
        answer = client.compact()
    before, after = (round(answer[key] / 2**20) for key in ("bytes_before", "bytes_after"))
    console.print(f"compacted: {before} MiB before, {after} MiB after")


@app.command()
def evaluate(
    queries: Annotated[Path, typer.Option(help=QUERIES)],
    qrels: Annotated[Path, typer.Option(help=QRELS)],
    corpus: Corpus = "default",
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="depth of the measures")] = 10,
    limit: Limit = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Run judged queries through every stage: how well it ranks, and what it costs."""
    with one_line_errors(), Client(url) as client, Progress(console=errors) as progress:
        judged = read_judged(queries, qrels, limit)
        bar = progress.add_task("searching", total=len(judged) * len(STAGES))
        results = evaluate_stages(client, corpus, judged, k, lambda: progress.advance(bar))
    if as_json:
        print(json.dumps({"corpus": corpus, "stages": [asdict(result) for result in results]}))
        return
    console.print(stage_table(results, k))
    for line in remarks(results):
        console.print(line, markup=False, soft_wrap=True)


@app.command()
def calibrate(
    corpus: Corpus = "default",
    queries: Annotated[Path | None, typer.Option(help=QUERIES)] = None,
    qrels: Annotated[Path | None, typer.Option(help=QRELS)] = None,
    from_feedback: Annotated[bool, typer.Option(help="judged by users instead")] = False,
    lost: Annotated[float, typer.Option(help="share of the relevant that may be dropped")] = 0.05,
    false: Annotated[float, typer.Option(help="share of the correct that may be wrong")] = 0.05,
    limit: Limit = None,
    write: Annotated[Path | None, typer.Option(help="Serve configuration file to change")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Fit a corpus's thresholds to judged queries, or to feedback, and say what they cost."""
    if from_feedback == (queries is not None and qrels is not None):
        stop("needs either --queries and --qrels, or --from-feedback", status=2)
    with one_line_errors(), Client(url) as client:
        if write is not None:
            check_file(write)
        if queries is not None and qrels is not None:
            scores = search_all(client, corpus, read_judged(queries, qrels, limit))
        else:
            scores = calibrating.feedback_scores(client, corpus)
        report = calibrating.calibrate(scores, lost, false)
        if write is not None:
            calibrating.write_thresholds(write, corpus, report.calibration)
    if as_json:
        print(json.dumps({"corpus": corpus, **asdict(report)}))
        return
    calibrating.show(report, console)
    if not from_feedback:
        console.print("a document that nobody has judged counts as irrelevant")
    if write is not None:
        line = f"written: `serve deploy {write}` makes it take effect, without a restart"
        console.print(line, markup=False, soft_wrap=True)


def search_all(
    client: Client, corpus: str, queries: list[JudgedQuery]
) -> list[calibrating.JudgedScore]:
    with Progress(console=errors) as progress:
        bar = progress.add_task("searching", total=len(queries))
        return calibrating.searched_scores(client, corpus, queries, lambda: progress.advance(bar))


def main() -> None:
    app()
