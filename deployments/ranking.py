"""Ranking plain texts for a query: the one scorer behind every rerank dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.errors import DeadlineExceeded
from pipeline.scoring import Pair, Score, ScoreAnswer, Tally, first_failure
from pipeline.stamps import pair_digest, strength_of


class RankedText(NamedTuple):
    """A text's place in the input, its score, and how much of the pair the model saw."""

    place: int
    relevance: float
    logit: float | None
    truncated: bool
    tokens: int

    @property
    def strength(self) -> float:
        return strength_of(self.logit, self.relevance)


@dataclass(frozen=True, slots=True)
class RerankAnswer:
    """Scored texts, best first; `unscored` holds the input places of the others."""

    model: str
    ranked: tuple[RankedText, ...]
    unscored: tuple[int, ...]
    tally: Tally


async def rerank_texts(query: str, texts: Sequence[str], score: Score) -> RerankAnswer:
    """Rank `texts`; equal texts share a pass, equal scores keep their input order.

    Raises DeadlineExceeded when not all could be scored in time, for half a ranking would pass
    for a whole one; Unavailable when none could be scored.
    """
    digests = [pair_digest(query, text) for text in texts]
    pairs = {digest: Pair(digest, text) for digest, text in zip(digests, texts, strict=True)}
    answer = await score(query, list(pairs.values()))
    check_scored(answer)
    scores = dict(zip(pairs, answer.scores, strict=True))
    found = [(index, scores[digest]) for index, digest in enumerate(digests)]
    ranked = [
        RankedText(index, one.relevance, one.logit, one.truncated, one.tokens)
        for index, one in found
        if one.relevance is not None
    ]
    unscored = tuple(index for index, one in found if one.relevance is None)
    ranked.sort(key=lambda one: one.strength, reverse=True)
    return RerankAnswer(answer.model, tuple(ranked), unscored, answer.tally)


def check_scored(answer: ScoreAnswer) -> None:
    if any(one.late for one in answer.scores):
        raise DeadlineExceeded("not every document was scored in time")
    failure = first_failure(answer)
    if failure is not None and all(one.relevance is None for one in answer.scores):
        raise failure
