"""Fitting a corpus's thresholds to judged scores, and telling what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from deployments.cli.checking import check_text
from deployments.cli.client import Client
from deployments.cli.judgements import JudgedQuery
from deployments.cli.settings_file import read_text, with_thresholds
from pipeline.calibration import Bin, Calibration, Errors, fit, histogram, judge
from pipeline.errors import InvalidInput, Unavailable
from pipeline.stamps import digest

# Every candidate is scored, none is dropped, and all come back: the server cuts the number down
# to its top_k. Refinement would only cost forward passes.
SCORE_ALL = {
    "corrective": False,
    "rerank": {"top_n": None, "append_remaining": True, "min_score": None},
    "final_top_k": 1000,
    "refine": False,
    "include_context": False,
}
# Where one of these failed, candidates may lack the scores that the others have.
SCORING_PARTS = frozenset({"correct", "rerank"})
# A partially relevant document speaks for neither side.
OUTCOMES = {"relevant": True, "highly_relevant": True, "not_relevant": False}
BAR = 20


@dataclass(frozen=True, slots=True)
class JudgedScore:
    """A text's relevance by the model and by a person; `query` names whose candidate it was."""

    query: str
    relevance: float
    relevant: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Thresholds fitted to half of the queries, their errors on the other, and both together."""

    calibration: Calibration
    held_out: Errors
    bins: tuple[Bin, ...]


def searched_scores(
    client: Client, corpus: str, queries: Sequence[JudgedQuery], progress: Callable[[], None]
) -> list[JudgedScore]:
    """Score each query's candidates and return what is judged of them.

    `progress` is called after each search. Raises Unavailable, after the last, unless every
    candidate has a score of the model now served: a fallback's lie on another scale.
    """
    model = needed_model(client)
    scores: list[JudgedScore] = []
    flaws: Counter[str] = Counter()
    for query in queries:
        answer = client.search({**SCORE_ALL, "corpus": corpus, "query": query.text})
        flaws.update(flaws_of(answer, model))
        scores += judged_scores(query, chunks_of(answer))
        progress()
    if flaws:
        counts = ", ".join(f"{count} {flaw}" for flaw, count in sorted(flaws.items()))
        raise Unavailable(f"nothing was fitted: of {len(queries)} answers {counts}")
    return scores


def needed_model(client: Client) -> str:
    """Return the model now served; InvalidInput if there is none."""
    model = client.served_model()
    if model is None:
        raise InvalidInput("calibration needs a scorer, and the server has none")
    return model


def flaws_of(answer: Mapping[str, Any], model: str) -> list[str]:
    """Say why an answer's scores are not to be fitted; an answer without any names no model."""
    flaws = []
    if answer["model"] not in (model, None):
        flaws.append("came from another model than the one served")
    if not SCORING_PARTS.isdisjoint(answer["degraded"]):
        flaws.append("lack scores because a part failed")
    return flaws


def chunks_of(answer: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the document and the relevance of each hit that has a score."""
    scored = [(hit["document_id"], hit["scores"]["cross_encoder"]) for hit in answer["hits"]]
    return [(document, score["relevance"]) for document, score in scored if score is not None]


def judged_scores(query: JudgedQuery, chunks: Iterable[tuple[str, float]]) -> Iterator[JudgedScore]:
    """Yield what is judged of a query's chunks, each given by its document and its relevance.

    A relevant document counts at its best chunk: its others need not answer. Every chunk of any
    other document counts as irrelevant, also where nobody has judged it.
    """
    best: dict[str, float] = {}
    for document, relevance in chunks:
        if query.gains.get(document, 0) > 0:
            best[document] = max(relevance, best.get(document, 0.0))
        else:
            yield JudgedScore(query.id, relevance, relevant=False)
    yield from (JudgedScore(query.id, relevance, relevant=True) for relevance in best.values())


def feedback_scores(client: Client, corpus: str) -> list[JudgedScore]:
    """Return the scores of the model now served that feedback has judged, by retrieval."""
    model = needed_model(client)
    return [
        JudgedScore(row["retrieval_id"], row["relevance"], OUTCOMES[row["outcome"]])
        for row in client.judged_scores(corpus)
        if row["model"] == model and row["relevance"] is not None and row["outcome"] in OUTCOMES
    ]


def calibrate(scores: Sequence[JudgedScore], lost: float, false: float) -> Report:
    """Fit to one half of the queries and judge by the other."""
    fitted, held_out = halves(scores)
    calibration = fit(*parted(fitted), lost=lost, false=false)
    return Report(
        calibration,
        judge(calibration.correct_threshold, calibration.incorrect_threshold, *parted(held_out)),
        histogram(*parted(scores)),
    )


def halves(scores: Iterable[JudgedScore]) -> tuple[list[JudgedScore], list[JudgedScore]]:
    """Split by query, the same way on every run: queries in the order of a digest, in turn."""
    by_query: dict[str, list[JudgedScore]] = {}
    for score in scores:
        by_query.setdefault(score.query, []).append(score)
    groups = [by_query[query] for query in sorted(by_query, key=digest)]
    return list(chain.from_iterable(groups[::2])), list(chain.from_iterable(groups[1::2]))


def parted(scores: Sequence[JudgedScore]) -> tuple[list[float], list[float]]:
    """Return the relevances of what is relevant, and of what is not."""
    return (
        [score.relevance for score in scores if score.relevant],
        [score.relevance for score in scores if not score.relevant],
    )


def write_thresholds(path: Path, corpus: str, calibration: Calibration) -> None:
    """Put the thresholds into a Serve configuration file; ConfigError leaves it as it was."""
    text = read_text(path)
    check_text(text, str(path))
    changed = with_thresholds(
        text,
        corpus,
        calibration.correct_threshold,
        calibration.incorrect_threshold,
        str(path),
    )
    check_text(changed, str(path))
    path.write_text(changed, "utf-8")


def show(report: Report, console: Console) -> None:
    calibration = report.calibration
    console.print(distribution_table(report.bins))
    console.print()
    console.print(error_table(report))
    console.print(
        f"correct_threshold {calibration.correct_threshold}, "
        f"incorrect_threshold {calibration.incorrect_threshold}",
    )


def distribution_table(bins: Sequence[Bin]) -> Table:
    """Both kinds side by side, each bar drawn to its own kind's longest."""
    table = Table(box=None, pad_edge=False)
    table.add_column("relevance", no_wrap=True)
    for kind in ("relevant", "irrelevant"):
        table.add_column(kind, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True, min_width=BAR)
    most_relevant = max(one.relevant for one in bins)
    most_irrelevant = max(one.irrelevant for one in bins)
    for one in bins:
        table.add_row(
            f"{one.low:.1f} to {one.high:.1f}",
            str(one.relevant),
            bar(one.relevant, most_relevant),
            str(one.irrelevant),
            bar(one.irrelevant, most_irrelevant),
        )
    return table


def bar(count: int, longest: int) -> str:
    """A bar at least one mark long, if there is anything at all."""
    return "█" * -(-count * BAR // max(longest, 1))


def error_table(report: Report) -> Table:
    """The errors that the thresholds accept, on either half of the queries."""
    table = Table(box=None, pad_edge=False)
    table.add_column("half", no_wrap=True)
    for column in ("relevant", "lost", "found", "irrelevant", "dropped", "false"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, errors in (("fitted", report.calibration.errors), ("held out", report.held_out)):
        table.add_row(
            name,
            str(errors.relevant),
            percent(errors.lost),
            percent(errors.found),
            str(errors.irrelevant),
            percent(errors.dropped),
            percent(errors.false),
        )
    return table


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
