"""Cutting a text into strips: whole passages, three sentences, or windows of 50 words.

Source of the sizes: Yan et al., "Corrective Retrieval Augmented Generation", 2024,
arXiv:2401.15884.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

Mode = Literal["passage", "sentences", "windows"]

SENTENCES_A_STRIP = 3
WORDS_A_WINDOW = 50
CHARACTERS_A_WINDOW = 200
# Words longer than this on average come from a script that puts no spaces between words.
MAX_MEAN_WORD_CHARACTERS = 20

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


class Span(NamedTuple):
    """A part of a text, by its characters; `end` is not in it."""

    start: int
    end: int


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
