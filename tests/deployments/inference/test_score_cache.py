from __future__ import annotations

import tracemalloc

from deployments.inference.score_cache import ENTRY_BYTES, Key, RawScore, ScoreCache
from deployments.inference.truncation import Limits, Side


def key(digest: str, tenant: str = "t", side: Side = "right") -> Key:
    return Key(tenant, Limits(side, 256, 512), digest)


def test_the_cache_forgets_the_least_recently_used() -> None:
    cache: ScoreCache[RawScore] = ScoreCache(2 * ENTRY_BYTES)
    for name in ("a", "b"):
        cache.put(key(name), RawScore(1.0, False, 1))
    assert cache.get(key("a")) is not None
    cache.put(key("c"), RawScore(1.0, False, 1))
    assert (cache.get(key("b")), len(cache)) == (None, 2)


def test_tenants_and_limits_have_scores_of_their_own() -> None:
    cache: ScoreCache[RawScore] = ScoreCache(10 * ENTRY_BYTES)
    cache.put(key("a"), RawScore(1.0, False, 1))
    assert cache.get(key("a", tenant="u")) is None
    assert cache.get(key("a", side="left")) is None
    assert cache.get(key("a")) == RawScore(1.0, False, 1)


def test_no_bytes_keep_nothing() -> None:
    cache: ScoreCache[RawScore] = ScoreCache(0)
    cache.put(key("a"), RawScore(1.0, False, 1))
    assert (cache.get(key("a")), len(cache)) == (None, 0)


def test_an_entry_takes_no_more_than_what_is_counted_for_it() -> None:
    cache: ScoreCache[RawScore] = ScoreCache(20_000 * ENTRY_BYTES)
    tracemalloc.start()
    for number in range(20_000):
        cache.put(
            key(f"{number:032x}", "".join(["a", "b"])),
            RawScore(0.5 + number, False, number),
        )
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(cache) == 20_000
    assert used / 20_000 <= ENTRY_BYTES
