"""The Scorer deployment: one cross-encoder, one batcher."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from deployments.config import ScorerArgs
from deployments.inference.batching import Batcher
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.score_cache import ScoreCache
from deployments.inference.sessions import threads_for
from deployments.inference.settings import resolve_model
from deployments.inference.work import Outcome
from deployments.logs import join_serve_log
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally


class Scorer:
    """Scores (query, text) pairs; ready only once a real pair was scored."""

    def __init__(self, args: ScorerArgs) -> None:
        join_serve_log()
        # Tokenizers must not start threads of their own beside ours.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        workers = args.threads if args.threads != "auto" else threads_for(args.num_cpus)
        self.encoder = load_encoder(args)
        # One session with one thread a call, shared by one calling thread per core, is the
        # fastest layout on CPU; a GPU runs one batch at a time.
        on_cpu = self.encoder.provider == "CPUExecutionProvider"
        self.batcher = Batcher(
            self.encoder,
            ScoreCache(args.cache_bytes),
            workers=workers if on_cpu else 1,
            max_batch_tokens=args.max_batch_tokens,
            max_queued_tokens=args.max_queued_tokens,
        )
        self.batcher.start()

    async def score(
        self, tenant: str, query: str, pairs: Sequence[tuple[str, str]], timeout_ms: float
    ) -> ScoreAnswer:
        """Score pairs given as (digest, text); what is not done in `timeout_ms` has a reason."""
        outcomes = await self.batcher.score(
            tenant, query, [Pair(*pair) for pair in pairs], timeout_ms / 1e3
        )
        scores = tuple(self._pair_score(outcome) for outcome in outcomes)
        return ScoreAnswer(self.encoder.fingerprint, scores, tally_of(outcomes))

    def _pair_score(self, outcome: Outcome) -> PairScore:
        score = outcome.score
        if score is None:
            return PairScore(None, None, reason=outcome.reason)
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
            "padding_ratio": padding_ratio(counters.tokens, counters.padded_tokens),
            "counters": dataclasses.asdict(counters),
        }


def load_encoder(args: ScorerArgs) -> CrossEncoder:
    encoder = CrossEncoder.load(
        resolve_model(args.model),
        activation=args.activation,
        max_tokens=args.max_tokens,
        provider=args.provider,
        threads=1,
        allow_cpu_fallback=args.allow_cpu_fallback,
    )
    encoder.warm_up()
    return encoder


def tally_of(outcomes: Sequence[Outcome]) -> Tally:
    scored = [outcome for outcome in outcomes if outcome.score is not None]
    origins = [outcome.origin for outcome in scored]
    return Tally(
        passes=origins.count("pass"),
        cached=origins.count("cache"),
        shared=origins.count("shared"),
        tokens=sum(outcome.score.tokens for outcome in scored if outcome.score),
    )


def padding_ratio(tokens: int, padded: int) -> float | None:
    """Return the share of token slots that was padding, None before the first batch."""
    return round(1 - tokens / padded, 4) if padded else None
