"""How well each stage ranks on a collection with human judgements, and what it costs.

    python -m benchmarks.quality --data FOLDER [--limit QUERIES] [--json FILE]

The real models, the real index and the whole chain, in this process, without Ray and HTTP. Then
thresholds of correction are fitted to half of the queries and judged by the other half. FOLDER
holds corpus.jsonl, queries.jsonl and qrels.tsv, as BEIR has them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run as a file

from benchmarks.collection import Collection, index_documents
from benchmarks.machine import describe_machine
from benchmarks.ours import running_batcher, score_texts
from deployments.cli.calibrating import JudgedScore, Report, calibrate, judged_scores, show
from deployments.cli.judgements import JudgedQuery, read_judged
from deployments.config import EmbedderArgs, ScorerArgs
from deployments.inference.batching import Batcher
from deployments.inference.cpus import usable_cpus
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.dense_encoder import DenseEncoder
from deployments.inference.resolving import resolve_model
from deployments.inference.sessions import Device
from deployments.stores.lance import LanceStore
from pipeline.chain import Ports, SearchPlan, SearchResult, search
from pipeline.corrective import CorrectionPlan
from pipeline.errors import InvalidInput
from pipeline.grading import Thresholds
from pipeline.legs import BM25, DENSE
from pipeline.metrics import Quality, best_places, mean_quality
from pipeline.reranking import RerankPlan
from pipeline.scoring import Pair, PairScore, Score, ScoreAnswer, Tally

K = 10
# As serve_config.yaml has them.
TOP_K = 30
CORRECTION = CorrectionPlan(Thresholds(correct=0.5, incorrect=0.02))
# The errors that fitted thresholds may make.
LOST, FALSE = 0.05, 0.05

HYBRID = (DENSE, BM25)
console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    legs: tuple[str, ...] = HYBRID
    correction: CorrectionPlan | None = None
    rerank: RerankPlan | None = None


RERANKED = Stage("+ rerank", rerank=RerankPlan())
STAGES = (
    Stage("bm25", (BM25,)),
    Stage("dense", (DENSE,)),
    Stage("hybrid"),
    RERANKED,
    Stage("+ correction", correction=CORRECTION),
    Stage("+ both", correction=CORRECTION, rerank=RerankPlan()),
)


@dataclass(frozen=True, slots=True)
class StageFigures:
    """Means a query. `passes` is what the stage would cost with an empty cache, `pairs` how many
    distinct (query, text) pairs it scored: one pass each, if they are equal."""

    stage: str
    quality: Quality
    passes: float
    pairs: float


@dataclass(slots=True)
class Memory:
    """Every score of the run, so that no stage waits for what another has paid for."""

    source: Score
    scores: dict[str, PairScore] = field(default_factory=dict)
    model: str = ""

    async def score(self, query: str, pairs: Sequence[Pair]) -> tuple[PairScore, ...]:
        fresh = [pair for pair in pairs if pair.digest not in self.scores]
        answer = await self.source(query, fresh)
        self.model = answer.model
        self.scores.update(zip((pair.digest for pair in fresh), answer.scores, strict=True))
        return tuple(self.scores[pair.digest] for pair in pairs)


@dataclass(slots=True)
class StageScorer:
    """The scorer as one stage sees it: nothing is in a cache, and what is asked for is counted."""

    memory: Memory
    passes: int = 0
    digests: set[str] = field(default_factory=set)

    async def __call__(self, query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        self.passes += len(pairs)
        self.digests.update(pair.digest for pair in pairs)
        scores = await self.memory.score(query, pairs)
        return ScoreAnswer(self.memory.model, scores, Tally(passes=len(pairs)))


def main() -> None:
    options = parse_options()
    data: Path = options.data
    queries = read_judged(data / "queries.jsonl", data / "qrels.tsv", options.limit)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(data, queries, folder))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the collection's folder")
    parser.add_argument("--limit", type=int, help="only the first so many judged queries")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


async def measure(data: Path, queries: Sequence[JudgedQuery], folder: str) -> dict[str, Any]:
    """Run all of it, show it, and return it as one object."""
    collection, chunks = await make_collection(data, queries, folder)
    async with running_batcher(resolve_model(ScorerArgs().model)) as (encoder, batcher):
        memory = Memory(scorer_of(encoder, batcher))
        stages, reranked = [], []
        for stage in STAGES:
            figures, results = await run_stage(stage, collection, queries, memory)
            stages.append(figures)
            if stage is RERANKED:
                reranked = results
    out = Console(width=100, highlight=False)
    out.print(f"{data.name}: {stages[0].quality.queries} queries, {chunks} chunks.")
    out.print(table_of(stages))
    report = fitted(queries, reranked)
    if isinstance(report, Report):
        show(report, out)
    else:
        out.print(f"No thresholds: {report}.")
    return {
        "benchmark": "quality",
        "machine": describe_machine(),
        "data": data.name,
        "chunks": chunks,
        "model": memory.model,
        "stages": {figures.stage: asdict(figures) for figures in stages},
        "calibration": asdict(report) if isinstance(report, Report) else None,
    }


def scorer_of(encoder: CrossEncoder, batcher: Batcher) -> Score:
    async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
        logits = await score_texts(batcher, query, [pair.text for pair in pairs])
        scores = tuple(PairScore(logit, encoder.relevance(logit)) for logit in logits)
        return ScoreAnswer(encoder.fingerprint, scores, Tally(passes=len(pairs)))

    return score


async def make_collection(
    data: Path, queries: Sequence[JudgedQuery], folder: str
) -> tuple[Collection, int]:
    """Index the documents and embed the queries; return how many chunks there are, too."""
    model = resolve_model(EmbedderArgs().model)
    encoder = DenseEncoder.load(model, Device("cpu", usable_cpus()))
    store = LanceStore(folder, encoder.dimension)
    with Progress(console=console) as progress:
        bar = progress.add_task("indexing", total=None)
        chunks = await index_documents(
            store,
            encoder,
            model,
            data / "corpus.jsonl",
            lambda count: progress.advance(bar, count),
        )
    texts = [query.text for query in queries]
    vectors = dict(zip(texts, encoder.encode_queries(texts), strict=True))
    return Collection(store, vectors), chunks


async def run_stage(
    stage: Stage, collection: Collection, queries: Sequence[JudgedQuery], memory: Memory
) -> tuple[StageFigures, list[SearchResult]]:
    scorer = StageScorer(memory)
    ports = Ports(partial(collection.search, stage.legs), collection.embed, scorer)
    results = []
    with Progress(console=console) as progress:
        for query in progress.track(queries, description=stage.name):
            # All hits come back, since several chunks may be of one document.
            plan = SearchPlan(
                query.text,
                top_k=TOP_K,
                final_top_k=TOP_K,
                correction=stage.correction,
                rerank=stage.rerank,
                on_error="closed",
            )
            results.append(await search(plan, ports))
    rankings = [best_places(hit.document_id for hit in result.hits) for result in results]
    quality = mean_quality(
        [(ranking, query.gains) for ranking, query in zip(rankings, queries, strict=True)], K
    )
    count = len(queries)
    figures = StageFigures(stage.name, quality, scorer.passes / count, len(scorer.digests) / count)
    return figures, results


def fitted(queries: Sequence[JudgedQuery], results: Sequence[SearchResult]) -> Report | str:
    """Calibrate from the reranked candidates, or say why that cannot be."""
    scores: list[JudgedScore] = []
    for query, result in zip(queries, results, strict=True):
        stamps = [(hit.document_id, hit.stamp) for hit in result.hits]
        chunks = [(document, stamp.relevance) for document, stamp in stamps if stamp is not None]
        scores += judged_scores(query, chunks)
    try:
        return calibrate(scores, LOST, FALSE)
    except InvalidInput as error:
        return error.message


def table_of(stages: Sequence[StageFigures]) -> Table:
    table = Table(box=box.MARKDOWN)
    table.add_column("stage", no_wrap=True)
    for column in (f"nDCG@{K}", f"MRR@{K}", f"recall@{K}", "passes a query", "passes ÷ pairs"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in stages:
        quality = one.quality
        measures = (quality.ndcg, quality.reciprocal_rank, quality.recall)
        table.add_row(
            one.stage,
            *(f"{mean:.3f}" for mean in measures),
            f"{one.passes:.1f}",
            f"{one.passes / one.pairs:.3f}" if one.pairs else "-",
        )
    return table


if __name__ == "__main__":
    main()
