"""The Scorer deployment: one cross-encoder, one batcher."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from deployments.config import ScorerArgs
from deployments.inference.batching import Batcher
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.resolving import resolve_model
from deployments.inference.score_cache import ScoreCache
from deployments.inference.sessions import CPU, Device, threads_for
from deployments.inference.work import PairOutcome
from deployments.logs import join_serve_log
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally


class Scorer:
    """Scores (query, text) pairs; ready only once a real pair was scored."""

    def __init__(self, args: ScorerArgs) -> None:
        join_serve_log()
        workers = threads_for(args.threads, args.num_cpus)
        self.encoder = load_encoder(args)
        # One session with one thread a call, shared by one calling thread per core, is the
        # fastest layout on CPU; a GPU runs one batch at a time.
        on_cpu = self.encoder.provider == CPU
        self.batcher = Batcher(
            self.encoder,
            ScoreCache(args.cache_bytes),
            workers=workers if on_cpu else 1,
            max_batch_tokens=args.max_batch_tokens,
            max_queued_tokens=args.max_queued_tokens,
        )
        self.batcher.start()

    async def score(
        self, tenant: str, query: str, pairs: Sequence[Pair], timeout_ms: float
    ) -> ScoreAnswer:
        """Score pairs; what is not done in `timeout_ms` has a reason instead."""
        outcomes = await self.batcher.score(tenant, query, pairs, timeout_ms / 1e3)
        scores = tuple(self._pair_score(outcome) for outcome in outcomes)
        return ScoreAnswer(self.encoder.fingerprint, scores, tally_of(outcomes))

    def _pair_score(self, outcome: PairOutcome) -> PairScore:
        score = outcome.score
        if score is None:
            return PairScore(None, None, reason=outcome.reason, late=outcome.late)
        relevance = self.encoder.relevance(score.logit)
        if relevance is None:
            return PairScore(None, None, reason="the model's score lies outside [0, 1]")
        return PairScore(score.logit, relevance, score.truncated)

    def check_health(self) -> None:
        """Serve replaces a replica for which this raises."""
        if not self.batcher.is_alive:
            raise RuntimeError("a worker of the scorer has ended")

    async def ping(self) -> str:
        return self.encoder.fingerprint

    async def status(self) -> dict[str, Any]:
        counters = self.batcher.counters
        return {
            "pid": os.getpid(),
            "model": self.encoder.fingerprint,
            "provider": self.encoder.provider,
            "workers": self.batcher.workers,
            "queued_tokens": self.batcher.queued_tokens,
            "cached_pairs": len(self.batcher.cache),
            "counters": dataclasses.asdict(counters),
        }


def load_encoder(args: ScorerArgs) -> CrossEncoder:
    encoder = CrossEncoder.load(
        resolve_model(args.model),
        Device(args.provider, 1, args.allow_cpu_fallback),
        activation=args.activation,
        max_tokens=args.max_tokens,
    )
    encoder.warm_up()
    return encoder


def tally_of(outcomes: Sequence[PairOutcome]) -> Tally:
    origins = [outcome.origin for outcome in outcomes]
    return Tally(
        passes=origins.count("pass"),
        cached=origins.count("cache"),
        shared=origins.count("shared"),
        tokens=sum(outcome.score.tokens for outcome in outcomes if outcome.score),
    )
