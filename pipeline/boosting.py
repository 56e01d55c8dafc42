"""Business rules: hits boosted or buried by what their metadata says, and by their age."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pipeline.filters import Filter, Path, as_float64, look_up, matches
from pipeline.hits import Boost, Hit, strength_order
from pipeline.stamps import strip_reserved

# Many rules may match one hit: so far their product stays finite, and so does its logarithm.
# A factor of a million moves a logit by 14, which is further than scorers set texts apart.
LEAST_FACTOR = 1e-6
GREATEST_FACTOR = 1e6

_DATE = r"(?P<date>\d{4}-\d{2}-\d{2})"
_TIME = r"(?P<time>\d{2}:\d{2}:\d{2})(?:\.(?P<fraction>\d+))?"
_ZONE = r"(?P<zone>[Zz]|[+-]\d{2}:\d{2})"
_MOMENT = re.compile(f"{_DATE}(?:[Tt ]{_TIME}{_ZONE}?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Decay:
    """A factor that halves with every half-life of a hit's age, down to `floor`, in (0, 1].

    The field at `path` is an RFC 3339 time or date, UTC if it names no zone, or seconds since
    1970 as a number. Where it is missing, unreadable or in the future the factor is 1.
    """

    path: Path
    half_life_s: float
    floor: float

    def __post_init__(self) -> None:
        if not (self.half_life_s > 0 and 0 < self.floor <= 1):
            raise ValueError("a decay needs a half-life above 0 and a floor in (0, 1]")


@dataclass(frozen=True, slots=True)
class BoostRule:
    """What hits that pass the filter `when` (None: all) are multiplied by: `factor` times decay.

    A factor above 1 boosts, one below 1 buries.
    """

    when: Filter | None = None
    factor: float = 1.0
    decay: Decay | None = None

    def __post_init__(self) -> None:
        if not 0 < self.factor < math.inf:
            raise ValueError("a factor must be finite and above 0")


def boost(hits: Sequence[Hit], rules: Sequence[BoostRule], now: datetime) -> tuple[Hit, ...]:
    """Return the same hits with their boost, sorted by its value; as they came without rules.

    A hit's factor is the product over its rules, within LEAST_FACTOR and GREATEST_FACTOR. The
    value is logit + ln(factor), so the factor multiplies the odds that the hit is relevant and
    lifts a negative logit too; relevance x factor from a scorer without logits; and fusion
    score x factor of an unscored hit. Unscored hits follow the scored ones whatever their
    factor, and those without a fusion score, which get no boost, come last. Ties fall as in
    `strength_order`. `now` has a time zone.
    """
    if not rules:
        return tuple(hits)
    moment = now.timestamp()
    return tuple(sorted((boosted(hit, rules, moment) for hit in hits), key=boost_order))


def boosted(hit: Hit, rules: Sequence[BoostRule], now: float) -> Hit:
    factor = factor_of(strip_reserved(hit.metadata), rules, now)
    if hit.stamp is not None and hit.stamp.logit is not None:
        value, name = hit.stamp.logit + math.log(factor), "boosted_logit"
    elif hit.stamp is not None:
        value, name = hit.stamp.relevance * factor, "boosted_relevance"
    elif hit.fusion_score is not None:
        value, name = hit.fusion_score * factor, "boosted_fusion"
    else:
        return hit
    return replace(hit, boost=Boost(factor, value, name))


def boost_order(hit: Hit) -> tuple[bool, float, float, float, int, str]:
    value = hit.boost.value if hit.boost is not None else -math.inf
    return (hit.stamp is None, -value, *strength_order(hit))


def factor_of(metadata: dict[str, Any], rules: Sequence[BoostRule], now: float) -> float:
    """Return the product over the rules that match; `now` in seconds since 1970."""
    product = 1.0
    for rule in rules:
        if rule.when is None or matches(rule.when, metadata):
            product *= rule.factor
            if rule.decay is not None:
                product *= decay_factor(rule.decay, look_up(rule.decay.path, metadata), now)
    return min(max(product, LEAST_FACTOR), GREATEST_FACTOR)


def decay_factor(decay: Decay, value: object, now: float) -> float:
    age = now - seconds_of(value)
    if not age > 0:  # also where the time is not a number, which stands for none
        return 1.0
    halved: float = 0.5 ** (age / decay.half_life_s)
    return max(decay.floor, halved)


def seconds_of(value: object) -> float:
    """Read a field as seconds since 1970; NaN if it is no time. Milliseconds are not guessed."""
    match value:
        case str():
            return seconds_of_text(value)
        case int() | float() if not isinstance(value, bool):
            return as_float64(value)
    return math.nan


def seconds_of_text(text: str) -> float:
    found = _MOMENT.fullmatch(text)
    if found is None:
        return math.nan
    time, zone = found["time"] or "00:00:00", found["zone"] or "Z"
    fraction = (found["fraction"] or "")[:6].ljust(6, "0")
    offset = "+00:00" if zone in "Zz" else zone
    # Spelt out in full, because fromisoformat reads no other form before Python 3.11.
    spelt = f"{found['date']}T{time}.{fraction}{offset}"
    try:
        return datetime.fromisoformat(spelt).timestamp()
    except ValueError:  # the 30th of February
        return math.nan
