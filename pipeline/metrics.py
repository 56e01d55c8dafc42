"""How good rankings are: graded judgements of documents, and what evaluations report of them.

Everywhere a ranking is document ids, best first, each once (`best_places` makes it so), and
gains are grades by document id: above 0 is relevant, an unjudged document is not. A measure of
one query needs a relevant document among its gains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import InvalidInput

Gains = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over `queries`, each at depth `k`; `left_out` queries have no relevant document."""

    k: int
    ndcg: float
    reciprocal_rank: float
    recall: float
    precision: float
    queries: int
    left_out: int


def best_places(document_ids: Iterable[str]) -> tuple[str, ...]:
    """Turn a ranking of chunks into one of documents: each counts at its best chunk."""
    return tuple(dict.fromkeys(document_ids))


def ndcg(ranking: Sequence[str], gains: Gains, k: int) -> float:
    """Normalised discounted cumulative gain of the first `k`, in [0, 1].

    The gain is linear (the grade itself) and the discount 1 / log2(1 + rank), both as trec_eval
    has them; the ideal ranking is the best of all judged documents. Source: Järvelin and
    Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 20(4), 2002.
    """
    known = relevant_gains(gains)
    ideal = sorted(known.values(), reverse=True)[:k]
    return discounted([known.get(document, 0.0) for document in ranking[:k]]) / discounted(ideal)


def reciprocal_rank(ranking: Sequence[str], gains: Gains, k: int) -> float:
    """One over the rank of the first relevant document, 0 if none is among the first `k`.

    Source: Voorhees, "The TREC-8 Question Answering Track Report", 1999.
    """
    known = relevant_gains(gains)
    ranks = (rank for rank, document in enumerate(ranking[:k], start=1) if document in known)
    return 1.0 / next(ranks, math.inf)


def recall(ranking: Sequence[str], gains: Gains, k: int) -> float:
    """Share of the relevant documents that are among the first `k`."""
    return found(ranking, gains, k) / len(relevant_gains(gains))


def precision(ranking: Sequence[str], gains: Gains, k: int) -> float:
    """Relevant documents among the first `k`, over `k` also where the ranking is shorter."""
    return found(ranking, gains, k) / k


def mean_quality(judged: Iterable[tuple[Sequence[str], Gains]], k: int) -> Quality:
    """Average over queries, each a ranking (of chunks or documents) and its gains.

    A query without a relevant document says nothing of a ranking: it is left out and counted.
    Raises InvalidInput if no query has one.
    """
    pairs = [(best_places(ranking), gains) for ranking, gains in judged]
    used = [pair for pair in pairs if relevant_gains(pair[1])]
    if not used:
        raise InvalidInput("no query has a relevant document")

    def mean(values: Iterable[float]) -> float:
        return math.fsum(values) / len(used)

    return Quality(
        k=k,
        ndcg=mean(ndcg(ranking, gains, k) for ranking, gains in used),
        reciprocal_rank=mean(reciprocal_rank(ranking, gains, k) for ranking, gains in used),
        recall=mean(recall(ranking, gains, k) for ranking, gains in used),
        precision=mean(precision(ranking, gains, k) for ranking, gains in used),
        queries=len(used),
        left_out=len(pairs) - len(used),
    )


def relevant_gains(gains: Gains) -> dict[str, float]:
    return {document: gain for document, gain in gains.items() if gain > 0}


def found(ranking: Sequence[str], gains: Gains, k: int) -> int:
    known = relevant_gains(gains)
    return sum(document in known for document in ranking[:k])


def discounted(gains: Sequence[float]) -> float:
    """Sum gains over ranks 1, 2, …, each divided by log2(1 + rank)."""
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, start=1))
