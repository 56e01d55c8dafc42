"""Which sources a search may find."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Patterns:
    """What a list of sources names: some exactly, others by a prefix. No prefix begins another."""

    exact: frozenset[str]
    prefixes: tuple[str, ...]

    def match(self, source: str) -> bool:
        return source in self.exact or source.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class SourceRules:
    """The sources that may be found; without an `allow` list all of them.

    An entry that ends in `*` is a prefix, any other is exact. There is no other wildcard, and
    case counts. What is in `block` is out, even if `allow` names it. A chunk without a source is
    on no list: a block list lets it pass, an allow list does not.
    """

    allow: tuple[str, ...] | None = None
    block: tuple[str, ...] = ()
    # Read once from the lists: they are long, and every chunk may be asked about.
    allowed: Patterns | None = field(init=False, repr=False, compare=False)
    blocked: Patterns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        allowed = None if self.allow is None else read_patterns(self.allow)
        object.__setattr__(self, "allowed", allowed)
        object.__setattr__(self, "blocked", read_patterns(self.block))

    def allows(self, source: str | None) -> bool:
        """Tell whether a chunk of this source may be found."""
        if source is None:
            return self.allowed is None
        if self.blocked.match(source):
            return False
        return self.allowed is None or self.allowed.match(source)


def read_patterns(entries: Iterable[str]) -> Patterns:
    """Tell exact entries from prefixes, without a prefix that a shorter one covers."""
    entries = set(entries)
    starred = {entry for entry in entries if entry.endswith("*")}
    prefixes: list[str] = []
    for prefix in sorted(entry[:-1] for entry in starred):
        # Whatever begins with a prefix is sorted right after it: the last one is the only suspect.
        if not (prefixes and prefix.startswith(prefixes[-1])):
            prefixes.append(prefix)
    return Patterns(frozenset(entries - starred), tuple(prefixes))
