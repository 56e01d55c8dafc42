"""Refinement: the returned hits cut down to the strips of their texts that answer the query.

Source of the method: Yan et al., "Corrective Retrieval Augmented Generation", 2024,
arXiv:2401.15884: decompose into strips, score and filter them, recompose in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pipeline.documents import join_body
from pipeline.errors import DeadlineExceeded, OnepassError, Unavailable
from pipeline.hits import Hit
from pipeline.scoring import Pair, Score, ScoreAnswer, Tally, first_failure
from pipeline.stamps import pair_digest
from pipeline.strips import SPLITTERS, Mode, Span

MAX_STRIPS: Mapping[Mode, int] = {"passage": 3, "sentences": 6, "windows": 6}
# What refining may cost: longer texts, and hits beyond so many strips, stay as they are.
MAX_CHARACTERS = 20_000
MAX_CHARACTERS_IN_ALL = 200_000
MAX_SCORED_STRIPS = 200


@dataclass(frozen=True, slots=True)
class RefinePlan:
    """How to refine. `max_strips` counts over all hits, None is the published number for the mode.

    `min_score` is a relevance, and not applied to the scores of `other_scales`: models that stand
    in for the one it was chosen for.
    """

    mode: Mode = "sentences"
    min_score: float = 0.5
    max_strips: int | None = None
    other_scales: frozenset[str] = frozenset()

    def min_score_for(self, model: str | None) -> float:
        return 0.0 if model in self.other_scales else self.min_score

    @property
    def limit(self) -> int:
        return MAX_STRIPS[self.mode] if self.max_strips is None else self.max_strips


@dataclass(frozen=True, slots=True)
class Refinement:
    """The same hits in the same order, with `refined` set where every strip has a score.

    `failure` says why a hit has none: an error that is data here. `strips` tells the trace,
    `model` scored them.
    """

    hits: tuple[Hit, ...]
    tally: Tally
    failure: OnepassError | None
    strips: tuple[dict[str, object], ...]
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """A part of a hit's text: which hit and which part, both from 0, and the pair to score."""

    hit: int
    position: int
    span: Span
    pair: Pair


class Scored(NamedTuple):
    """Relevances by pair digest, how they were come by, why some are missing, whose they are."""

    relevance: dict[str, float]
    tally: Tally
    failure: OnepassError | None
    model: str | None


async def refine(
    query: str,
    hits: Sequence[Hit],
    plan: RefinePlan,
    score: Score,
    *,
    model: str | None,
    judged: Sequence[Hit] = (),
) -> Refinement:
    """Score each distinct strip once and keep the best, `plan.limit` over all hits.

    Kept are those of at least `min_score`, and always the best one; a hit that keeps none gets
    an empty `refined`. `model` made the stamps; those of `judged` hits are read as well. An
    answer by another model is a failure, and so is a strip without a score: they leave `refined`
    None for the hits that they concern, as the bounds above do. Errors of the scorer besides
    Unavailable and DeadlineExceeded pass through.
    """
    strips = strips_within_bounds(query, hits, plan)
    known = known_relevances(query, (*judged, *hits), model)
    scored = await score_strips(query, strips, known, score, model)
    relevance, least = scored.relevance, plan.min_score_for(scored.model)
    whole = set(range(len(hits))) - {strip.hit for strip in strips}
    unscored = whole | {strip.hit for strip in strips if strip.pair.digest not in relevance}
    complete = [strip for strip in strips if strip.hit not in unscored]
    kept = select(complete, relevance, plan.limit, least)
    refined = tuple(
        replace(hit, refined=None if at in unscored else recompose(hit.text, at, kept))
        for at, hit in enumerate(hits)
    )
    told = trace(hits, strips, relevance, kept)
    return Refinement(refined, scored.tally, scored.failure, told, scored.model)


def known_relevances(query: str, hits: Sequence[Hit], model: str | None) -> dict[str, float]:
    """Return what stamps hold, by pair digest: a text that stays whole is its own strip, and a
    strip may be another hit's whole text."""
    stamps = [hit.stamp_for(query, model) for hit in hits]
    return {stamp.pair: stamp.relevance for stamp in stamps if stamp is not None}


async def score_strips(
    query: str,
    strips: Sequence[Strip],
    known: dict[str, float],
    score: Score,
    model: str | None,
) -> Scored:
    """Score what is not `known`. Nothing is known any more where the scorer failed."""
    wanted = {strip.pair.digest: strip.pair for strip in strips if strip.pair.digest not in known}
    tally = Tally(reused=sum(strip.pair.digest in known for strip in strips))
    if not wanted:
        return Scored(known, tally, None, model)
    try:
        answer = await score(query, list(wanted.values()))
    except (Unavailable, DeadlineExceeded) as error:
        return Scored({}, Tally(), error, model)
    if model in (None, answer.model):
        known = known | relevances(wanted, answer)
    return Scored(known, tally + answer.tally, failure_of(answer, model), model or answer.model)


def strips_within_bounds(query: str, hits: Sequence[Hit], plan: RefinePlan) -> list[Strip]:
    """Return the strips of the hits, best first, that refining may cost."""
    strips: list[Strip] = []
    left = MAX_CHARACTERS_IN_ALL
    for at, hit in enumerate(hits):
        if len(hit.text) > min(MAX_CHARACTERS, left):
            continue
        left -= len(hit.text)
        more = strips_of(query, at, hit, plan)
        if len(strips) + len(more) > MAX_SCORED_STRIPS:
            break
        strips += more
    return strips


def strips_of(query: str, at: int, hit: Hit, plan: RefinePlan) -> list[Strip]:
    """Decompose a hit's text; a text of one strip stays whole, to the last space."""
    spans = SPLITTERS[plan.mode](hit.text)
    if len(spans) < 2:
        spans = [Span(0, len(hit.text))]
    bodies = [join_body(hit.title, hit.text[span.start : span.end]) for span in spans]
    return [
        Strip(at, position, span, Pair(pair_digest(query, body), body))
        for position, (span, body) in enumerate(zip(spans, bodies, strict=True))
    ]


def relevances(wanted: Iterable[str], answer: ScoreAnswer) -> dict[str, float]:
    return {
        digest: score.relevance
        for digest, score in zip(wanted, answer.scores, strict=True)
        if score.relevance is not None
    }


def failure_of(answer: ScoreAnswer, model: str | None) -> OnepassError | None:
    """Say why strips are without a score that counts, if any is."""
    if model not in (None, answer.model):
        return Unavailable("the scorer's model changed during the request")
    return first_failure(answer)


def select(
    strips: Sequence[Strip], relevance: Mapping[str, float], limit: int, least: float
) -> frozenset[Strip]:
    """Return the strips that stay: the best ones, ties in the order of hits and positions."""
    best_first = sorted(strips, key=lambda strip: -relevance[strip.pair.digest])
    best = [strip for strip in best_first[:limit] if relevance[strip.pair.digest] >= least]
    return frozenset(best or best_first[:1])


def recompose(text: str, at: int, kept: Iterable[Strip]) -> str:
    """Join a hit's strips in their order: neighbours as in the text, others by one space."""
    runs: list[tuple[int, Span]] = []
    for strip in sorted((s for s in kept if s.hit == at), key=lambda s: s.position):
        if runs and runs[-1][0] == strip.position - 1:
            runs[-1] = (strip.position, Span(runs[-1][1].start, strip.span.end))
        else:
            runs.append((strip.position, strip.span))
    return " ".join(text[span.start : span.end] for _, span in runs)


def trace(
    hits: Sequence[Hit],
    strips: Sequence[Strip],
    relevance: Mapping[str, float],
    kept: frozenset[Strip],
) -> tuple[dict[str, object], ...]:
    return tuple(
        {
            "id": hits[strip.hit].id,
            "strip": strip.position,
            "start": strip.span.start,
            "end": strip.span.end,
            "relevance": relevance.get(strip.pair.digest),
            "kept": strip in kept,
        }
        for strip in strips
    )
