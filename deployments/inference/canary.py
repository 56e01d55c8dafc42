"""A pair whose logit is known, to see whether tokenizer and model still work."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deployments.inference.batching import Batcher
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.errors import ModelError
from deployments.inference.weights import PROBE_QUERY, PROBE_TEXTS

# A device that computes the same thing otherwise than it did is broken; fp16 is within 5e-3.
TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Canary:
    """A real pair and the logit that it had when the model was loaded."""

    query: str
    text: str
    logit: float

    @classmethod
    def of(cls, encoder: CrossEncoder) -> Canary:
        query, text = PROBE_QUERY, PROBE_TEXTS[0]
        return cls(query, text, float(encoder.logits(encoder.encode(query, [text]))[0]))

    async def check(self, batcher: Batcher) -> None:
        """Score the pair on free threads. ModelError if that fails or gives another logit."""
        logit = await batcher.probe(self.query, self.text)
        if not isinstance(logit, float):
            raise ModelError(f"a known pair is not scored any more: {logit}")
        if not math.isclose(logit, self.logit, rel_tol=0, abs_tol=TOLERANCE):
            raise ModelError(f"a known pair's logit was {self.logit:.4f} and is {logit:.4f} now")
