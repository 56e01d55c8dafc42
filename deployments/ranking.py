"""Ranking plain texts for a query: the one scorer behind every rerank dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import DeadlineExceeded
from pipeline.hits import Hit
from pipeline.reranking import RerankPlan, rerank
from pipeline.scoring import Score, Tally


@dataclass(frozen=True, slots=True)
class RankedText:
    """A text's place in the input, its score, and how much of the pair the model saw."""

    index: int
    relevance: float
    logit: float | None
    truncated: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class RerankAnswer:
    """Scored texts, best first; `unscored` holds the input places of the others."""

    model: str | None
    ranked: tuple[RankedText, ...]
    unscored: tuple[int, ...]
    tally: Tally


async def rerank_texts(query: str, texts: Sequence[str], score: Score) -> RerankAnswer:
    """Rank `texts`; equal texts share a pass, equal scores keep their input order.

    Raises DeadlineExceeded when not all could be scored in time, for half a ranking would pass
    for a whole one; Unavailable when none could be scored.
    """
    # Ids decide between equal scores, as text: padded, they keep the input order.
    hits = [Hit(f"{index:09d}", "", index, text) for index, text in enumerate(texts)]
    ranking = await rerank(query, hits, RerankPlan(), score)
    if isinstance(ranking.failure, DeadlineExceeded):
        raise ranking.failure
    ranked = tuple(
        RankedText(int(hit.id), stamp.relevance, stamp.logit, stamp.truncated, stamp.tokens)
        for hit in ranking.hits
        if (stamp := hit.stamp) is not None
    )
    if not ranked and ranking.failure is not None:
        raise ranking.failure
    unscored = tuple(int(hit.id) for hit in ranking.hits if hit.stamp is None)
    return RerankAnswer(ranking.model, ranked, unscored, ranking.tally)
