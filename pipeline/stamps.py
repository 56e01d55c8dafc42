"""The stamp: a cross-encoder score carried in a hit's metadata, with its provenance.

A stamp proves its model and its (query, text) pair, so a score is reused only for the very
pair it was computed for. Stamps and grades are Python objects, not JSON: whatever a stored
document or a client writes under a reserved key can never be taken for one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

CROSS_ENCODER_SCORE = "_crossEncoderScore"
RERANKED = "_reranked"
TRACKED = "_tracked"
GRADE = "_grade"
RESERVED_KEYS = frozenset({CROSS_ENCODER_SCORE, RERANKED, TRACKED, GRADE})

# How a request came by a score: a forward pass of its own, the cache, or another's in flight.
CameBy = Literal["pass", "cache", "shared"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """One forward pass's result.

    `logit` is the model's raw output (None for a provider that gives none), `relevance` lies in
    [0, 1], `model` is the scorer's fingerprint and `pair` the digest of (query, text). The model
    saw `tokens`, special ones included, and not the whole pair if it was `truncated`.
    """

    logit: float | None
    relevance: float
    model: str
    pair: str
    truncated: bool = False
    tokens: int = 0
    came_by: CameBy = "pass"

    @property
    def strength(self) -> float:
        return strength_of(self.logit, self.relevance)


@dataclass(frozen=True, slots=True)
class Grade:
    """A CRAG grade (correct, ambiguous, incorrect) and the thresholds that gave it."""

    value: str
    correct_threshold: float
    incorrect_threshold: float


def strength_of(logit: float | None, relevance: float) -> float:
    """What scored texts are sorted by: the logit, which does not collapse at 1.0."""
    return relevance if logit is None else logit


def sigmoid(logit: float) -> float:
    """Return 1 / (1 + e^-logit) in float64, without overflow."""
    if logit >= 0:
        return 1.0 / (1.0 + math.exp(-logit))
    grown = math.exp(logit)
    return grown / (1.0 + grown)


def pair_digest(query: str, text: str) -> str:
    """Return the 128-bit digest, in hex, of a (query, text) pair."""
    return digest(query, text)


def rerank_guard(query: str, model: str) -> str:
    """Return the value of `_reranked`: which query and model a ranking belongs to."""
    return digest(query, model)


def digest(*parts: str) -> str:
    """Return a 128-bit digest, in hex, of several strings; their boundaries count."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.hexdigest()


def strip_reserved(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's own metadata, without any reserved key."""
    return {key: value for key, value in metadata.items() if key not in RESERVED_KEYS}
