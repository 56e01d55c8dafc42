"""Onepass as the Scorer runs it, less Ray and HTTP: encoder and batcher, no cache."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pairs import Pairs
from deployments.config import ScorerArgs
from deployments.inference.batching import Batcher
from deployments.inference.cpus import usable_cpus
from deployments.inference.cross_encoder import CrossEncoder
from deployments.scorer import load_encoder, make_batcher
from pipeline.scoring import Pair
from pipeline.stamps import pair_digest

TENANT = "benchmark"
TIMEOUT_S = 600.0
# Nobody is to be refused here: every client's documents are waited for.
MAX_QUEUED_TOKENS = 10**7
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """`padding_share` of the token slots, `tokenising_share` of a request's time if the texts were
    tokenised alone: once their words are known, and (`first_…`) when none was seen before.

    `cut` is whether the last layer is computed for position 0 only.
    """

    padding_share: float
    tokenising_share: float
    first_tokenising_share: float
    cut: bool


@contextlib.asynccontextmanager
async def running_batcher(folder: Path) -> AsyncIterator[tuple[CrossEncoder, Batcher]]:
    args = ScorerArgs(
        model=str(folder),
        provider="cpu",
        num_cpus=usable_cpus(),
        cache_bytes=0,
        max_queued_tokens=MAX_QUEUED_TOKENS,
    )
    encoder = load_encoder(args)
    batcher = make_batcher(args, encoder)
    batcher.start()
    try:
        yield encoder, batcher
    finally:
        await batcher.close()


async def score_texts(batcher: Batcher, query: str, texts: Sequence[str]) -> list[float]:
    """Score the texts of one request; it is an error here if one has no score."""
    pairs = [Pair(pair_digest(query, text), text) for text in texts]
    outcomes = await batcher.score(TENANT, query, pairs, TIMEOUT_S)
    logits = [outcome.score.logit for outcome in outcomes if outcome.score is not None]
    if len(logits) != len(texts):
        raise RuntimeError(f"only {len(logits)} of {len(texts)} pairs have a score")
    return logits


async def measure_figures(folder: Path, pairs: Pairs) -> Figures:
    async with running_batcher(folder) as (encoder, batcher):
        tokenising, requests = [], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            encoder.encode(pairs.query, pairs.texts)
            middle = time.perf_counter()
            await score_texts(batcher, pairs.query, pairs.texts)
            tokenising.append(middle - start)
            requests.append(time.perf_counter() - middle)
        counters = batcher.workers.counters
        return Figures(
            padding_share=1 - counters.tokens / counters.padded_tokens,
            tokenising_share=statistics.median(tokenising[1:]) / statistics.median(requests),
            first_tokenising_share=tokenising[0] / statistics.median(requests),
            cut=encoder.graph.cut,
        )
