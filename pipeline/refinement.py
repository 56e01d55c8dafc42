"""Refinement: the returned hits cut down to the strips of their texts that answer the query.

Source of the method: Yan et al., "Corrective Retrieval Augmented Generation", 2024,
arXiv:2401.15884: decompose into strips, score and filter them, recompose in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pipeline.documents import join_body
from pipeline.errors import DeadlineExceeded, OnepassError, Unavailable
from pipeline.hits import Hit
from pipeline.scoring import Pair, Score, ScoreAnswer, Tally, first_failure
from pipeline.stamps import pair_digest

Mode = Literal["passage", "sentences", "windows"]

MAX_STRIPS: Mapping[Mode, int] = {"passage": 3, "sentences": 6, "windows": 6}
SENTENCES_A_STRIP = 3
WORDS_A_WINDOW = 50
CHARACTERS_A_WINDOW = 200
# Words longer than this on average come from a script that puts no spaces between words.
MAX_MEAN_WORD_CHARACTERS = 20

# What refining may cost: longer texts, and hits beyond so many strips, stay as they are.
MAX_CHARACTERS = 20_000
MAX_CHARACTERS_IN_ALL = 200_000
MAX_SCORED_STRIPS = 200

CJK_STOPS = "。！？｡"  # noqa: RUF001
CLOSING = "\"'”’»」』）)\\]"  # noqa: RUF001
# A blank line; a line's end before a list's item or a heading, for prose may be wrapped anywhere;
# a CJK full stop; a Latin one before a space. Closing quotes and brackets belong to the sentence.
# The lookbehind takes a run of stops once, so that time stays linear.
NEXT_ITEM = r"[ \t]*(?:[-*•#>|]|\d{1,3}[.)])[ \t]"
SENTENCE_END = re.compile(
    rf"\n\s*\n|\n(?={NEXT_ITEM})|[{CJK_STOPS}]+[{CLOSING}]*|(?<![.!?…])[.!?…]+[{CLOSING}]*(?=\s)",
)
ABBREVIATION = re.compile(
    r"""(?:^|[\s("'“\[])
    (?:[^\W\d_]                              # one letter, as in J. Smith
    |(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}      # stops inside, as in e.g. or Ph.D.
    |al|approx|bzw|ca|cf|dr|ed|eds|eq|fig|jr|mr|mrs|ms|nr|pp|prof|resp|sec|sr|st|vgl|vol|vs)
    \.$""",
    re.IGNORECASE | re.VERBOSE,
)
MAX_ABBREVIATION_CHARACTERS = 16
LIST_NUMBER = re.compile(r"\s*\d{1,3}\.")
NOT_SPACE = re.compile(r"\S")


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


class Span(NamedTuple):
    """A part of a text, by its characters; `end` is not in it."""

    start: int
    end: int


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


def passage(text: str) -> list[Span]:
    return [Span(0, len(text))]


def sentence_groups(text: str) -> list[Span]:
    return grouped(sentences(text), SENTENCES_A_STRIP)


def windows(text: str) -> list[Span]:
    """Cut by 50 words, or by 200 characters where words have no spaces between them."""
    words = [Span(*match.span()) for match in re.finditer(r"\S+", text)]
    if sum(end - start for start, end in words) > MAX_MEAN_WORD_CHARACTERS * len(words):
        starts = range(0, len(text), CHARACTERS_A_WINDOW)
        return [Span(start, min(start + CHARACTERS_A_WINDOW, len(text))) for start in starts]
    return grouped(words, WORDS_A_WINDOW)


def sentences(text: str) -> list[Span]:
    """Split by punctuation and lines, not after abbreviations, initials or a list's numbers."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    spans: list[Span] = []
    start = 0
    for end in [*ends, len(text)]:
        if end < len(text) and runs_on(text, start, end):
            continue
        if (part := text[start:end]).strip():
            spans.append(Span(start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
        start = end
    return spans


def runs_on(text: str, start: int, end: int) -> bool:
    """Say whether the sentence from `start` goes on after what looks like its end."""
    if text[end - 1] == "\n" or text[end - 1] in CJK_STOPS:
        return False
    following = NOT_SPACE.search(text, end)
    if following is not None and following[0].islower():
        return True
    tail = text[max(start, end - MAX_ABBREVIATION_CHARACTERS) : end]
    return (
        ABBREVIATION.search(tail) is not None or LIST_NUMBER.fullmatch(text, start, end) is not None
    )


def grouped(spans: Sequence[Span], size: int) -> list[Span]:
    """Join each `size` spans that follow one another."""
    groups = [spans[at : at + size] for at in range(0, len(spans), size)]
    return [Span(group[0].start, group[-1].end) for group in groups]


SPLITTERS: Mapping[Mode, Callable[[str], list[Span]]] = {
    "passage": passage,
    "sentences": sentence_groups,
    "windows": windows,
}
