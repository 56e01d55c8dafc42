"""Running judged queries through a server, stage by stage, and what each stage is worth."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from deployments.cli.client import Client, ClientError
from deployments.cli.judgements import JudgedQuery
from pipeline.metrics import Quality, best_places, mean_quality

# All candidates come back, since several chunks may be of one document: the server cuts this
# down to its top_k. Refinement ranks nothing.
ALL_HITS = {"final_top_k": 1000, "refine": False, "include_context": False}
PLAIN = {"legs": None, "corrective": False, "rerank": False}
STAGES: Mapping[str, Mapping[str, Any]] = {
    "bm25": {**PLAIN, "legs": ["bm25"]},
    "dense": {**PLAIN, "legs": ["dense"]},
    "hybrid": PLAIN,
    "+ rerank": {**PLAIN, "rerank": True},
    "+ correction": {**PLAIN, "corrective": True},
    "+ both": {**PLAIN, "corrective": True, "rerank": True},
}
REFUSED = 422


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage over all queries: means a query, and the median of the server's own time.

    `passes` counts forward passes, `cached` scores that an earlier search had paid for;
    `degraded` counts answers in which a part failed.
    """

    stage: str
    quality: Quality
    passes: float
    cached: float
    p50_ms: float
    degraded: int


@dataclass(frozen=True, slots=True)
class Absent:
    """A stage that the server cannot do, and why."""

    stage: str
    reason: str


def evaluate_stages(
    client: Client,
    corpus: str,
    queries: Sequence[JudgedQuery],
    k: int,
    progress: Callable[[], None],
) -> list[StageResult | Absent]:
    """Run every stage over all queries; `progress` is called after each search.

    What the configuration says of anything else (sizes, thresholds, fusion, expansion) holds.
    Raises ClientError for whatever but a refusal of the stage.
    """
    return [
        evaluate_stage(
            client, stage, {**ALL_HITS, **options, "corpus": corpus}, queries, k, progress
        )
        for stage, options in STAGES.items()
    ]


def evaluate_stage(
    client: Client,
    stage: str,
    request: Mapping[str, Any],
    queries: Sequence[JudgedQuery],
    k: int,
    progress: Callable[[], None],
) -> StageResult | Absent:
    answers = []
    for query in queries:
        try:
            answers.append(client.search({**request, "query": query.text}))
        except ClientError as error:
            if error.status != REFUSED:
                raise
            return Absent(stage, str(error))
        progress()
    return result_of(stage, answers, queries, k)


def result_of(
    stage: str, answers: Sequence[Mapping[str, Any]], queries: Sequence[JudgedQuery], k: int
) -> StageResult:
    rankings = [best_places(hit["document_id"] for hit in answer["hits"]) for answer in answers]
    gains = [query.gains for query in queries]
    return StageResult(
        stage=stage,
        quality=mean_quality(zip(rankings, gains, strict=True), k),
        passes=statistics.fmean(answer["forward_passes"] for answer in answers),
        cached=statistics.fmean(answer["cached_scores"] for answer in answers),
        p50_ms=statistics.median(answer["timings_ms"]["total"] for answer in answers),
        degraded=sum(bool(answer["degraded"]) for answer in answers),
    )


def stage_table(results: Sequence[StageResult | Absent], k: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    measures = (f"nDCG@{k}", f"MRR@{k}", f"recall@{k}")
    for column in (*measures, "passes", "cached", "ms p50", "degraded"):
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        if isinstance(result, StageResult):
            table.add_row(result.stage, *cells_of(result))
        else:
            table.add_row(result.stage, "-")
    return table


def cells_of(result: StageResult) -> list[str]:
    quality = result.quality
    return [
        *(f"{mean:.3f}" for mean in (quality.ndcg, quality.reciprocal_rank, quality.recall)),
        f"{result.passes:.1f}",
        f"{result.cached:.1f}",
        f"{result.p50_ms:.0f}",
        str(result.degraded),
    ]


def remarks(results: Sequence[StageResult | Absent]) -> list[str]:
    """Say what the table cannot: what is not available, over how many queries the means are."""
    lines = [
        f"{one.stage}: not available: {one.reason}" for one in results if isinstance(one, Absent)
    ]
    measured = [one for one in results if isinstance(one, StageResult)]
    if measured:
        quality = measured[0].quality
        lines.append(
            f"means over {quality.queries} queries; {quality.left_out} without a relevant "
            "document are left out; passes and scores from the cache are per query; "
            "the searches are recorded like any others"
        )
    return lines
