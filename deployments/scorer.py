"""The Scorer deployment: one cross-encoder, one batcher."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from ray.util.metrics import Gauge

from deployments.config import ScorerArgs
from deployments.inference.backends import CPU
from deployments.inference.batching import Batcher
from deployments.inference.canary import Canary
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.resolving import resolve_model
from deployments.inference.score_cache import ScoreCache
from deployments.inference.sessions import Device, threads_for
from deployments.inference.truncation import Truncation
from deployments.inference.work import PairOutcome
from deployments.logs import join_serve_log
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally

# A batch is stuck when it takes ten times as long as the slowest one of the warm-up, at least
# the first of these, and at most the second, which Serve's own timeout must exceed.
STUCK_S, LONGEST_STUCK_S = 10.0, 50.0
REPORT_INTERVAL_S = 1.0


class Scorer:
    """Scores (query, text) pairs; ready only once a real pair was scored."""

    def __init__(self, args: ScorerArgs) -> None:
        join_serve_log()
        self.encoder = load_encoder(args)
        self.batcher = make_batcher(args, self.encoder)
        slowest_s = self.encoder.warm_up(self.batcher.max_batch_tokens)
        self.stuck_s = min(max(STUCK_S, 10 * slowest_s), LONGEST_STUCK_S)
        self.canary = Canary.of(self.encoder)
        self.batcher.start()
        self.queued = Gauge(
            "onepass_scorer_queued_tokens", "Tokens of the pairs that wait for a replica or run"
        )
        self.reporting = asyncio.create_task(self._report())

    async def score(
        self,
        tenant: str,
        query: str,
        pairs: Sequence[Pair],
        truncation: Truncation,
        timeout_ms: float,
    ) -> ScoreAnswer:
        """Score pairs; what is not done in `timeout_ms` has a reason instead."""
        outcomes = await self.batcher.score(tenant, query, pairs, timeout_ms / 1e3, truncation)
        scores = tuple(self._pair_score(outcome) for outcome in outcomes)
        return ScoreAnswer(self.encoder.fingerprint, scores, tally_of(outcomes))

    def _pair_score(self, outcome: PairOutcome) -> PairScore:
        score = outcome.score
        if score is None:
            return PairScore(None, None, reason=outcome.reason, late=outcome.late)
        relevance = self.encoder.relevance(score.logit)
        if relevance is None:
            return PairScore(None, None, reason="the model's score lies outside [0, 1]")
        return PairScore(
            score.logit,
            relevance,
            truncated=score.truncated,
            tokens=score.tokens,
            came_by=outcome.origin or "pass",
        )

    async def describe(self) -> dict[str, Any]:
        """What clients may ask of the model: its fingerprint, and its window in tokens."""
        return {"model": self.encoder.fingerprint, "max_tokens": self.encoder.max_tokens}

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count each text's tokens by the model's tokenizer, special ones not included."""
        return await asyncio.to_thread(self.encoder.count_tokens, texts)

    async def check_health(self) -> None:
        """Serve replaces a replica for which this raises, or does not return, a few times."""
        workers = self.batcher.workers
        if not workers.is_alive:
            raise RuntimeError("a worker of the scorer has ended")
        if workers.running_s > self.stuck_s:
            raise RuntimeError(f"a batch has been running for {workers.running_s:.0f} s")
        await asyncio.wait_for(self.canary.check(self.batcher), self.stuck_s)

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What a custom autoscaling policy of Serve's is given for this replica."""
        return {"queued_tokens": float(self.batcher.queued_tokens)}

    async def _report(self) -> None:
        while True:
            self.queued.set(self.batcher.queued_tokens)
            await asyncio.sleep(REPORT_INTERVAL_S)

    async def ping(self) -> str:
        return self.encoder.fingerprint

    async def status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "model": self.encoder.fingerprint,
            "provider": self.encoder.provider,
            "precision": self.encoder.graph.precision,
            "last_layer_cut": self.encoder.graph.cut,
            "threads": self.batcher.threads,
            "max_batch_tokens": self.batcher.max_batch_tokens,
            "queued_tokens": self.batcher.queued_tokens,
            "pairs_in_flight": self.batcher.pairs_in_flight,
            "cached_pairs": len(self.batcher.cache),
            "counters": self.batcher.totals,
        }


def load_encoder(args: ScorerArgs) -> CrossEncoder:
    return CrossEncoder.load(
        resolve_model(args.model),
        Device(args.provider, 1, args.allow_cpu_fallback),
        activation=args.activation,
        max_tokens=args.max_tokens,
        truncation_side=args.truncation_side,
        max_query_tokens=args.max_query_tokens,
        max_document_tokens=args.max_document_tokens,
    )


def make_batcher(args: ScorerArgs, encoder: CrossEncoder) -> Batcher:
    threads = threads_for(args.threads, args.num_cpus)
    # One session with one thread a call, shared by one calling thread per core, is the fastest
    # layout on CPU. A GPU runs one batch at a time, and the cores tokenise for it.
    on_cpu = encoder.provider == CPU
    return Batcher(
        encoder,
        ScoreCache(args.cache_bytes),
        threads=threads if on_cpu else 1,
        tokenizer_threads=1 if on_cpu else threads,
        max_batch_tokens=args.max_batch_tokens or encoder.batch_tokens,
        max_queued_tokens=args.max_queued_tokens,
    )


def tally_of(outcomes: Sequence[PairOutcome]) -> Tally:
    origins = [outcome.origin for outcome in outcomes]
    return Tally(
        passes=origins.count("pass"),
        cached=origins.count("cache"),
        shared=origins.count("shared"),
        tokens=sum(outcome.score.tokens for outcome in outcomes if outcome.score),
    )
