"""A cross-encoder: (query, text) pairs to logits, and a logit to relevance."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deployments.inference.errors import ModelError
from deployments.inference.graphs import ModelGraph, open_graph
from deployments.inference.sessions import Device
from deployments.inference.settings import ModelSettings, read_settings
from deployments.inference.tokens import EncodedPair
from deployments.inference.truncation import AS_CONFIGURED, Limits, Truncation, limits_in
from deployments.inference.weights import PROBE_QUERY, PROBE_TEXTS
from pipeline.stamps import sigmoid

logger = logging.getLogger(__name__)

# Beyond this a pair's score depends on its batch mates: fp32 gives 1e-4, fp16 5e-3.
BATCH_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """A loaded cross-encoder with one logit a pair. Threads may share it."""

    graph: ModelGraph

    @classmethod
    def load(
        cls,
        folder: Path,
        device: Device,
        *,
        precision: str = "auto",
        **overrides: Any,
    ) -> CrossEncoder:
        """Load a model's folder on a device; `overrides` are settings to use instead of its own.

        `precision` is fp32, fp16, or auto: fp16 on a GPU where such weights have been made.
        ModelError if anything about it is unusable, also if the graph does not give one logit a
        pair: its message names the shape that came instead.
        """
        settings = read_settings(folder, "cross_encoder", **overrides)
        encoder = cls(open_graph(folder, settings, "logits", device, precision))
        encoder.logits(encoder.encode(PROBE_QUERY, PROBE_TEXTS[:1]))
        return encoder

    @property
    def settings(self) -> ModelSettings:
        return self.graph.settings

    @property
    def fingerprint(self) -> str:
        """name@12 hex digits: weights, tokenizer, window, precision, activation, graph."""
        return self.graph.fingerprint

    @property
    def provider(self) -> str:
        """The ONNX Runtime provider really in use."""
        return self.graph.session.provider

    @property
    def max_tokens(self) -> int:
        return self.settings.max_tokens

    def limits(self, truncation: Truncation) -> Limits:
        """Return where texts are cut if that is asked for: within the window, and its settings."""
        return limits_in(self.max_tokens, truncation, self.settings.truncation)

    def encode(
        self, query: str, texts: Sequence[str], truncation: Truncation = AS_CONFIGURED
    ) -> list[EncodedPair]:
        """Encode each (query, text) pair, in order."""
        return self.graph.tokenizer.encode_pairs(query, texts, truncation)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count each text's tokens, special ones not included."""
        return self.graph.tokenizer.count(texts)

    def logits(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Return the logits (n,) of one forward pass over the whole batch, in order.

        They may be NaN or infinite where the model fails: `relevance` says which are scores.
        """
        if not batch:
            return np.zeros(0, np.float32)
        output = self.graph.run(batch)
        if output.shape not in ((len(batch),), (len(batch), 1)):
            raise ModelError(
                f"{self.settings.name} gives an output of shape {output.shape} for a batch of "
                f"{len(batch)}, and one logit a pair is needed"
            )
        return output.reshape(len(batch)).astype(np.float32, copy=False)

    @property
    def batch_tokens(self) -> int:
        """How large a batch suits the device, in padded tokens."""
        return self.graph.session.backend.batch_tokens

    def slots(self, rows: int, length: int) -> int:
        """Return how many token slots a batch takes, padding included."""
        rows, length = self.graph.session.backend.fit(rows, length, self.max_tokens)
        return rows * length

    def relevance(self, logit: float) -> float | None:
        """Return relevance in [0, 1] in float64, or None if the logit is not a score.

        Not a score are NaN and infinities, and values outside [0, 1] of an identity model.
        """
        value = float(logit)
        if not math.isfinite(value):
            return None
        if self.settings.activation == "sigmoid":
            return sigmoid(value)
        return value if 0.0 <= value <= 1.0 else None

    def warm_up(self, max_batch_tokens: int) -> float:
        """Score pairs in every shape that batches of so many padded tokens will run in.

        Returns the seconds that the slowest batch took. ModelError if any logit is not finite.
        Warns if a pair's logit changes with the company it keeps, as it does in dynamically
        quantised graphs: stamps and caches then hold scores that a second run would not give.
        """
        fill = Truncation("right", self.max_tokens, self.max_tokens)
        (whole,) = self.encode(PROBE_QUERY, [PROBE_TEXTS[0] * self.max_tokens], fill)
        slowest = 0.0
        for rows, length in self.graph.session.backend.shapes(self.max_tokens, max_batch_tokens):
            padded = [beginning(whole, length // 2)] * (rows - 1)
            start = time.perf_counter()
            self.finite_logits([beginning(whole, length), *padded])
            slowest = max(slowest, time.perf_counter() - start)
        self.check_company()
        return slowest

    def check_company(self) -> None:
        """Warn if pairs score differently alone and together."""
        pairs = self.encode(PROBE_QUERY, PROBE_TEXTS)
        together = self.finite_logits(pairs)
        alone = np.concatenate([self.logits([pair]) for pair in pairs])
        difference = float(np.abs(together - alone).max())
        if difference > BATCH_TOLERANCE:
            logger.warning(
                "%s scores a pair differently in a batch (by %.3f): is it dynamically quantised?",
                self.settings.name,
                difference,
            )

    def finite_logits(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Return the logits of a batch. ModelError if any is not a finite number."""
        logits = self.logits(batch)
        if not np.isfinite(logits).all():
            shape = (len(batch), max(pair.length for pair in batch))
            raise ModelError(f"{self.settings.name} gives logits that are not finite for {shape}")
        return logits


def beginning(pair: EncodedPair, length: int) -> EncodedPair:
    return EncodedPair(pair.ids[:length], pair.type_ids[:length], truncated=True)
