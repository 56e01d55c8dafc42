"""What a reranker answers, and what of it counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeGuard

from pipeline.scoring import PairScore
from pipeline.stamps import sigmoid

Scale = Literal["relevance", "logit"]
# (index, score) as a service gave them, in its order: anything at all.
Ranking = list[tuple[object, object]]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores by position in the texts sent; `invalid` entries did not count."""

    by_index: Mapping[int, PairScore]
    invalid: int


def settle(ranking: Ranking, count: int, scale: Scale) -> Scores:
    """Take each position in 0…count-1 once, the first time that it has a sound score.

    The scale is the service's and is never guessed from values. What else the ranking holds is
    invalid: an index given again, out of range or no integer, and a score that is no number of
    its scale.
    """
    scores: dict[int, PairScore] = {}
    for index, raw in ranking:
        score = score_of(raw, scale)
        if is_position(index, count) and index not in scores and score is not None:
            scores[index] = score
    return Scores(scores, len(ranking) - len(scores))


def score_of(raw: object, scale: Scale) -> PairScore | None:
    value = number_of(raw)
    if value is None:
        return None
    if scale == "logit":
        return PairScore(value, sigmoid(value))
    return PairScore(None, value) if 0.0 <= value <= 1.0 else None


def read_entries(entries: object, *names: str) -> Ranking:
    """Read objects with an `index` and a score under one of `names`; ValueError for no list."""
    if not isinstance(entries, list):
        raise ValueError("the answer has no list of results")
    return [read_entry(entry, names) for entry in entries]


def read_entry(entry: object, names: tuple[str, ...]) -> tuple[object, object]:
    if not isinstance(entry, dict):
        return None, None
    return entry.get("index"), next((entry[name] for name in names if name in entry), None)


def member(answer: object, name: str) -> object:
    """Return a member of an object; ValueError if there is none."""
    if not isinstance(answer, dict) or name not in answer:
        raise ValueError(f"the answer has no {name}")
    return answer[name]


def number_of(raw: object) -> float | None:
    """Return a finite number as a float; a boolean, a text and what no float holds are None."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        return None
    try:
        value = float(raw)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def is_position(index: object, count: int) -> TypeGuard[int]:
    return isinstance(index, int) and not isinstance(index, bool) and 0 <= index < count
