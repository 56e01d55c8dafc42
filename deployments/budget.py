"""Sharing a request's time between the hops that serve it."""

from __future__ import annotations

import time

# What a search keeps for itself after a part's time is up: sorting, recording, answering.
RESERVE_S = 0.5
# How much longer than its own limit another process may take before it counts as silent.
GRACE_S = 0.25


def left_s(deadline: float, limit_s: float | None = None, reserve_s: float = 0.0) -> float:
    """Return the seconds until `deadline` on the monotonic clock, less a reserve, at most
    `limit_s`; 0 if there are none."""
    left = deadline - time.monotonic() - reserve_s
    return max(left if limit_s is None else min(left, limit_s), 0.0)


def leg_share_s(left: float, limit_s: float) -> float:
    """Return a leg's part of what is left: what remains after it must still make an answer, so
    the usual reserve stays, or a fifth of what a hurried request has."""
    return min(limit_s, left - min(RESERVE_S, left / 5))
