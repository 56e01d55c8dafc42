"""Source rules as LanceDB's SQL.

The engine overflows its stack, and so ends the process, on a thousand conditions in a row:
hence a balanced tree of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from deployments.stores.lance_filters import one_of, quoted
from pipeline.sources import Patterns, SourceRules

# To cut every source to one length, and look that up, costs as much as about so many prefixes
# tried one by one. A list of 1,000 then takes 20 to 500 ms against 100,000 chunks.
CUT_FROM = 8


def sources_sql(rules: SourceRules) -> str:
    """Return the SQL condition on `source` that means the same as the rules; never NULL."""
    allowed = None if rules.allowed is None else f"({_matches(rules.allowed)}) IS TRUE"
    blocked = f"({_matches(rules.blocked)}) IS NOT TRUE"
    return blocked if allowed is None else f"({allowed} AND {blocked})"


def _matches(patterns: Patterns) -> str:
    """Return the condition that a source is named; NULL for a chunk without one."""
    by_length: dict[int, list[str]] = {}
    for prefix in patterns.prefixes:
        by_length.setdefault(len(prefix), []).append(prefix)
    conditions = [one_of("source", sorted(patterns.exact))]
    for length, prefixes in by_length.items():
        if len(prefixes) < CUT_FROM:
            conditions += [f"starts_with(source, {quoted(prefix)})" for prefix in prefixes]
        else:
            conditions.append(one_of(f"left(source, {length})", prefixes))
    return _any(conditions)


def _any(conditions: Sequence[str]) -> str:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any(conditions[:middle])} OR {_any(conditions[middle:])})"
