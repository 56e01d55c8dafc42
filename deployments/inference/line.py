"""The pairs that wait for the device: in which order, and which of them share a batch."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from operator import attrgetter

from deployments.inference.work import Work

# After how many pairs that went before it, from behind it, a pair lets no other pass.
MOST_PASSED = 128

rank = attrgetter("rank")


class Line:
    """Works in the order of their ranks; a batch is taken from the front.

    The first in line is in every next batch. The batch is filled with its neighbours in length
    among the first `window` pairs, so that little of it is padding: they pass those between. Whom
    MOST_PASSED pairs have passed lets by none that has not been passed as often.
    """

    def __init__(self, max_padding: int, window: int) -> None:
        self.max_padding = max_padding
        self.window = window
        self._works: list[Work] = []
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._works)

    def add(self, work: Work) -> None:
        """Put a work in its place: by when it is due, then by request, the longest first."""
        work.rank = (work.due, work.number, -work.length, id(work))
        insort(self._works, work, key=rank)
        self.tokens += work.length

    def remove(self, work: Work) -> None:
        del self._works[bisect_left(self._works, work.rank, key=rank)]
        self.tokens -= work.length

    def take(self, max_tokens: int) -> list[Work]:
        """Remove and return the next batch, or one pair.

        It has at most `max_tokens` when padded, and `max_padding` of them are padding: to start
        one more batch costs less.
        """
        window = self._window()
        if not window:
            return []
        places = block_of_first([work.length for work in window], max_tokens, self.max_padding)
        count_passed(window, places)
        for place in sorted(places, reverse=True):
            del self._works[place]
        batch = [window[place] for place in places]
        self.tokens -= sum(work.length for work in batch)
        return batch

    def _window(self) -> list[Work]:
        """The works that may go next: from the front to the last that may not be passed."""
        window = self._works[: self.window]
        passed = [place for place, work in enumerate(window) if work.passed >= MOST_PASSED]
        return window[: passed[-1] + 1] if passed else window


def block_of_first(lengths: Sequence[int], max_tokens: int, max_padding: int) -> list[int]:
    """Return the places that share a batch with place 0, longest first.

    The places are sorted by length and cut, from the longest on, into blocks of at most
    `max_tokens` when padded, `max_padding` of them padding. Taking one block away leaves the
    others as they are.
    """
    block: list[int] = []
    padding = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        longest = lengths[block[0]] if block else lengths[place]
        padding += longest - lengths[place]
        if longest * (len(block) + 1) > max_tokens or padding > max_padding:
            if 0 in block:
                break
            block, padding = [], 0
        block.append(place)
    return block


def count_passed(window: Sequence[Work], places: Sequence[int]) -> None:
    """Tell those who stay how many from behind them were taken."""
    taken, behind = set(places), len(places)
    for place in range(max(places)):
        if place in taken:
            behind -= 1
        else:
            window[place].passed += behind
