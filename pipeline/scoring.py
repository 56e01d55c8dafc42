"""One forward pass a pair: stamping the hits that have no valid stamp yet, and only those."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.errors import DeadlineExceeded, OnepassError, Unavailable
from pipeline.hits import Hit
from pipeline.stamps import CROSS_ENCODER_SCORE, CameBy, Stamp, pair_digest


# These two are tuples, since hundreds of them cross processes with each request: a frozen
# dataclass with slots takes ten times as long to pickle.
class Pair(NamedTuple):
    """A text to be scored against the query, and the digest of (query, text)."""

    digest: str
    text: str


class PairScore(NamedTuple):
    """A scorer's answer for one pair: `relevance` in [0, 1], or None with the `reason`, which is
    for people; `late` says that there was no time for it. `tokens` are those that the model saw,
    special ones included; `came_by` says whether this request caused the pass."""

    logit: float | None
    relevance: float | None
    truncated: bool = False
    tokens: int = 0
    reason: str | None = None
    late: bool = False
    came_by: CameBy = "pass"


@dataclass(frozen=True, slots=True)
class Tally:
    """How scores were come by. `reused` counts hits whose stamp was read instead of scoring,
    `tokens` those of the pairs that the scorer answered, special tokens included."""

    passes: int = 0
    reused: int = 0
    cached: int = 0
    shared: int = 0
    tokens: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.passes + other.passes,
            self.reused + other.reused,
            self.cached + other.cached,
            self.shared + other.shared,
            self.tokens + other.tokens,
        )


@dataclass(frozen=True, slots=True)
class ScoreAnswer:
    """The scores of the pairs asked for, in their order and number, all by one `model`."""

    model: str
    scores: tuple[PairScore, ...]
    tally: Tally


# Scores pairs for a query; raises Unavailable or DeadlineExceeded when it cannot answer at all.
Score = Callable[[str, Sequence[Pair]], Awaitable[ScoreAnswer]]


@dataclass(frozen=True, slots=True)
class Stamped:
    """The same hits in the same order, stamped where a score arrived.

    `failure` says why some have none: an error that is data here and is not raised.
    """

    hits: tuple[Hit, ...]
    model: str | None
    tally: Tally
    failure: OnepassError | None = None


async def stamp_hits(query: str, hits: Sequence[Hit], model: str | None, score: Score) -> Stamped:
    """Score each distinct unstamped pair once and stamp every hit that holds it.

    A pair that any hit has a stamp for is not scored again. `model` is the fingerprint that
    earlier stamps of this request carry, or None. If the scorer answers with another, the hits of
    the earlier one are scored again, once: one ranking has one model. A pair without a score
    leaves its hits unstamped and is named in `failure`; a stamp of another query, text or model
    does not survive, so every stamp that comes out counts.
    """
    stamped = share_stamps(query, [proven(query, hit, model) for hit in hits])
    earlier, reused = model, sum(hit.stamp is not None for hit in stamped)
    tally = Tally()
    wanted = unstamped_pairs(query, stamped)
    failure: OnepassError | None = None
    for _ in range(2):
        if not wanted:
            break
        try:
            answer = await score(query, list(wanted.values()))
        except (Unavailable, DeadlineExceeded) as error:
            failure = error
            break
        model, tally = answer.model, tally + answer.tally
        stamped = apply_answer(query, stamped, list(wanted), answer)
        failure = failure or first_failure(answer)
        wanted = outdated_pairs(query, stamped, model)
    if wanted and failure is None:
        failure = Unavailable("the scorer's model changed twice during the request")
    if model == earlier:
        tally += Tally(reused=reused)
    return Stamped(tuple(proven(query, hit, model) for hit in stamped), model, tally, failure)


def share_stamps(query: str, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Give the stamp of a pair to every hit that holds the pair."""
    stamps = {hit.stamp.pair: hit.stamp for hit in hits if hit.stamp is not None}
    if not stamps:
        return tuple(hits)
    found = ((hit, stamps.get(pair_digest(query, hit.body))) for hit in hits)
    return tuple(
        hit if stamp is None else hit.marked(CROSS_ENCODER_SCORE, stamp) for hit, stamp in found
    )


def unstamped_pairs(query: str, hits: Sequence[Hit]) -> dict[str, Pair]:
    pairs = (pair_of(query, hit) for hit in hits if hit.stamp is None)
    return {pair.digest: pair for pair in pairs}


def outdated_pairs(query: str, hits: Sequence[Hit], model: str) -> dict[str, Pair]:
    """The pairs whose stamp an older model made."""
    old = [hit for hit in hits if hit.stamp is not None and hit.stamp.model != model]
    return {pair.digest: pair for pair in (pair_of(query, hit) for hit in old)}


def pair_of(query: str, hit: Hit) -> Pair:
    return Pair(pair_digest(query, hit.body), hit.body)


def apply_answer(
    query: str, hits: Sequence[Hit], digests: Sequence[str], answer: ScoreAnswer
) -> tuple[Hit, ...]:
    scores: Mapping[str, PairScore] = dict(zip(digests, answer.scores, strict=True))
    return tuple(stamp_hit(query, hit, scores, answer.model) for hit in hits)


def stamp_hit(query: str, hit: Hit, scores: Mapping[str, PairScore], model: str) -> Hit:
    pair = pair_digest(query, hit.body)
    score = scores.get(pair)
    if score is None or score.relevance is None:
        return hit
    stamp = Stamp(
        score.logit, score.relevance, model, pair, score.truncated, score.tokens, score.came_by
    )
    return hit.marked(CROSS_ENCODER_SCORE, stamp)


def proven(query: str, hit: Hit, model: str | None) -> Hit:
    """Return the hit without a stamp that is not this query's, this text's and this model's."""
    return hit if hit.stamp_for(query, model) is not None else hit.without(CROSS_ENCODER_SCORE)


def first_failure(answer: ScoreAnswer) -> OnepassError | None:
    """Say why the first pair without a score has none."""
    for score in answer.scores:
        if score.relevance is None:
            kind = DeadlineExceeded if score.late else Unavailable
            return kind(score.reason or "the scorer gave no score")
    return None
