"""A pair whose logit is known, to see whether a model still works."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deployments.inference.cross_encoder import WARM_UP_QUERY, WARM_UP_TEXTS, CrossEncoder
from deployments.inference.errors import ModelError
from deployments.inference.tokens import EncodedPair
from deployments.inference.workers import Workers

# A device that computes the same thing otherwise than it did is broken; fp16 is within 5e-3.
TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Canary:
    """A real pair and the logit that it had when the model was loaded."""

    pair: EncodedPair
    logit: float

    @classmethod
    def of(cls, encoder: CrossEncoder) -> Canary:
        (pair,) = encoder.encode(WARM_UP_QUERY, WARM_UP_TEXTS[:1])
        return cls(pair, float(encoder.logits([pair])[0]))

    async def check(self, workers: Workers) -> None:
        """Score the pair on a free thread. ModelError if that fails or gives another logit."""
        (logit,) = await workers.probe([self.pair])
        if not isinstance(logit, float):
            raise ModelError(f"a known pair is not scored any more: {logit}")
        if not math.isclose(logit, self.logit, rel_tol=0, abs_tol=TOLERANCE):
            raise ModelError(f"a known pair's logit was {self.logit:.4f} and is {logit:.4f} now")
