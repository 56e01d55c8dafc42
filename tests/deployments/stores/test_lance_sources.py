"""LanceDB's SQL must mean what `SourceRules.allows` says."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.stores.lance import LanceStore
from deployments.stores.lance_sources import sources_sql
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey
from pipeline.filters import parse_filter
from pipeline.legs import BM25
from pipeline.sources import SourceRules

CORPUS = CorpusKey("tenant", "corpus")

# Few letters, so that entries and sources meet; among them what SQL and patterns take for more.
TEXTS = st.text(st.sampled_from("ab*%_'\\é\u0301😀\0\n"), max_size=4)
ENTRIES = st.lists(TEXTS | TEXTS.map(lambda text: text + "*"), max_size=20).map(tuple)
RULES = st.builds(SourceRules, allow=ENTRIES | st.none(), block=ENTRIES)


async def passing(
    sources: Sequence[str | None], searches: Sequence[tuple[SourceRules, ...]]
) -> list[list[int]]:
    """Return, for each search's rules, the places of the sources that LanceDB lets pass."""
    with tempfile.TemporaryDirectory() as folder:
        store = LanceStore(folder, None)
        chunks = [
            IndexedChunk(Chunk(f"{n}#0", str(n), 0, "word", source=source), None, "digest")
            for n, source in enumerate(sources)
        ]
        await store.upsert(CORPUS, chunks)
        found = []
        for rules in searches:
            hits = await store.search(CORPUS, LegQuery(BM25, 1_000, "word", sources=rules))
            found.append(sorted(int(hit.chunk.document_id) for hit in hits))
        return found


@settings(max_examples=25, deadline=None)
@given(
    st.lists(TEXTS | st.none(), min_size=1, max_size=20),
    st.lists(st.lists(RULES, max_size=2).map(tuple), min_size=8, max_size=8),
)
def test_any_rules_pass_the_same_chunks_as_the_reference(
    sources: list[str | None], searches: list[tuple[SourceRules, ...]]
) -> None:
    expected = [
        [n for n, source in enumerate(sources) if all(each.allows(source) for each in rules)]
        for rules in searches
    ]

    assert asyncio.run(passing(sources, searches)) == expected


async def test_the_longest_lists_run_beside_a_deep_filter() -> None:
    raw: object = {"any": [{"field": "k", "eq": n} for n in range(100)]}
    for _ in range(14):
        raw = {"not": raw}
    few = tuple("b" * n + "/*" for n in range(1_000))
    many = tuple(f"a{n:03}/*" for n in range(1_000))
    exact = tuple(f"{n}" for n in range(1_000))
    rules = (SourceRules((*many, *few), exact), SourceRules(block=(*few, *exact)))
    with tempfile.TemporaryDirectory() as folder:
        store = LanceStore(folder, None)
        chunks = [
            IndexedChunk(Chunk(f"{n}#0", "d", n, "word", None, source, {"k": 99}), None, "digest")
            for n, source in enumerate(["a999/x", "bb/x", "5"])
        ]
        await store.upsert(CORPUS, chunks)
        query = LegQuery(BM25, 10, "word", filter=parse_filter(raw), sources=rules)

        assert [hit.chunk.id for hit in await store.search(CORPUS, query)] == ["0#0"]


def test_what_a_client_writes_stays_inside_its_literal() -> None:
    rules = SourceRules(allow=("a", "'; --*"), block=tuple(f"{n}'*" for n in range(8)))

    assert sources_sql(rules) == (
        "(((source IN ('a') OR starts_with(source, '''; --'))) IS TRUE"
        " AND ((false OR left(source, 2) IN ('0''', '1''', '2''', '3''', '4''', '5''', '6''',"
        " '7'''))) IS NOT TRUE)"
    )


def test_no_rules_hold_for_every_source() -> None:
    assert sources_sql(SourceRules()) == "(false) IS NOT TRUE"
