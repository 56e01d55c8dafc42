"""Which parts the options of a search need, and which of them are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deployments.options import ConfigError
from deployments.search_options import SearchArgs, SearchOptions
from deployments.stores.protocol import ENGINE_LEGS
from pipeline.legs import DENSE, SPARSE

SPARSE_ENGINES = [engine for engine, legs in ENGINE_LEGS.items() if SPARSE in legs]


@dataclass(frozen=True, slots=True)
class Parts:
    """What this application was built with."""

    scorer: bool
    embedder: bool
    chat: bool
    web_search: bool
    sparse_model: bool = False


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
        ("legs", DENSE in (options.legs or ()), "embedder"),
        ("legs", SPARSE in (options.legs or ()), "sparse_model"),
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
            raise ConfigError(f"{where}.{name} needs a {part}, and {absent(part)}")


def absent(part: str) -> str:
    """Say that a part is not there, and where it would stand."""
    if part == "sparse_model":
        engines = ", ".join(SPARSE_ENGINES)
        return f"`embedder.sparse_model` is null; index engines with a sparse leg: {engines}"
    return f"`{part}` is null"


def check_engine(engine: str, sparse_model: str | None) -> None:
    """Raise ConfigError for a sparse encoder whose vectors the index engine cannot search."""
    if sparse_model is not None and SPARSE not in ENGINE_LEGS[engine]:
        raise ConfigError(
            "embedder.sparse_model needs an index engine with a sparse leg "
            f"({', '.join(SPARSE_ENGINES)}), and index.engine is {engine}"
        )
