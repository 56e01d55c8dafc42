"""Which parts the options of a search need, and which of them are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deployments.options import ConfigError
from deployments.search_options import SearchArgs, SearchOptions


@dataclass(frozen=True, slots=True)
class Parts:
    """What this application was built with."""

    scorer: bool
    embedder: bool
    chat: bool
    web_search: bool


def unmet(options: SearchOptions, parts: Parts) -> Iterator[tuple[str, str]]:
    """Yield each option that is on and the part that it needs and that is not there."""
    expansion = options.expansion
    written = expansion.hyde or expansion.step_back or expansion.multi_query
    needs = (
        ("corrective", options.corrective.enabled, "scorer"),
        ("corrective.fallback", options.corrective.fallback == "http", "web_search"),
        ("rerank", options.rerank.enabled, "scorer"),
        ("refine", options.refine.enabled, "scorer"),
        ("expansion", expansion.enabled and bool(written), "chat"),
        ("expansion.hyde", expansion.enabled and bool(expansion.hyde), "embedder"),
        ("legs", "dense" in (options.legs or ()), "embedder"),
    )
    for name, is_on, part in needs:
        if is_on and not getattr(parts, part):
            yield name, part


def check_needs(search: SearchArgs, parts: Parts) -> None:
    """Raise ConfigError for what is on, for all or for one corpus, without the part it needs."""
    for corpus in (None, *search.corpora):
        options = search if corpus is None else search.for_corpus(corpus)
        where = "search" if corpus is None else f"search.corpora.{corpus}"
        for name, part in unmet(options, parts):
            raise ConfigError(f"{where}.{name} needs a {part}, and `{part}` is null")
