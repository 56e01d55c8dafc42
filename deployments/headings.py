"""Where a Markdown text has headings, and telling a splitter of them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# A line that opens or closes a block of code, or a heading with its number signs.
MARK = re.compile(r"^ {0,3}(?:(?P<fence>`{3,}|~{3,})|(?P<signs>#{1,6})[ \t])", re.MULTILINE)
LINE_ENDS = re.compile(r"\n+")
LOWEST_LEVEL = 6
# A longer run of line ends parts more than a heading does, and is left to.
LONGEST_RUN = 8


@dataclass(frozen=True, slots=True)
class Heading:
    """Where a heading begins, and its level from 1, the highest, to 6."""

    start: int
    level: int


@dataclass(frozen=True, slots=True)
class Marked:
    """A text with line ends put in before its headings.

    `ends` are where those end in `text`, ascending; `added` counts them up to each.
    """

    text: str
    ends: tuple[int, ...]
    added: tuple[int, ...]

    def original(self, place: int) -> int:
        """Return where a place of `text` that is not within what was put in was before."""
        before = bisect_left(self.ends, place + 1)
        return place - self.added[before - 1] if before else place


def find_headings(text: str) -> list[Heading]:
    """Return the headings that are marked by number signs, in order; those in code are none."""
    found: list[Heading] = []
    fence = ""
    for mark in MARK.finditer(text):
        if signs := mark["signs"]:
            if not fence:
                found.append(Heading(mark.start(), len(signs)))
        elif not fence:
            fence = mark["fence"]
        elif mark["fence"].startswith(fence):
            fence = ""
    return found


def headings_in(headings: Sequence[Heading], start: int, end: int) -> list[Heading]:
    """Return those that begin in a part of the text, by where they begin in it."""
    first = bisect_left(headings, start, key=lambda one: one.start)
    last = bisect_left(headings, end, key=lambda one: one.start)
    return [Heading(one.start - start, one.level) for one in headings[first:last]]


def mark_headings(text: str, headings: Sequence[Heading]) -> Marked:
    """Put line ends before headings: more of them than the text has anywhere, and the most
    before the highest.

    A splitter that takes the longest run of line ends for the strongest boundary then keeps
    sections whole where it can.
    """
    run = max((len(one[0]) for one in LINE_ENDS.finditer(text)), default=0) if headings else 0
    parts: list[str] = []
    ends: list[int] = []
    added: list[int] = []
    position = total = 0
    for heading in headings:
        count = min(run, LONGEST_RUN) + 1 + LOWEST_LEVEL - heading.level
        parts += [text[position : heading.start], "\n" * count]
        position = heading.start
        total += count
        ends.append(position + total)
        added.append(total)
    return Marked("".join([*parts, text[position:]]), tuple(ends), tuple(added))
