"""docs/pipeline.md tells the truth: each number of its example is computed again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from deployments.answers import Asked, search_answer
from deployments.search_options import SearchOptions
from pipeline.chain import EPOCH, SearchResult
from pipeline.documents import CorpusKey
from pipeline.filters import GROUPS, OPERATORS, matches, parse_filter
from scripts.options import options_in
from tests.docs.example import PAGE, TEXT, read_request, run
from tests.docs.pages import ROOT, blocks_in, section, table

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


@pytest.fixture
async def result() -> SearchResult:
    return await run(read_request())


def trace_of(result: SearchResult) -> dict[str, Any]:
    assert result.trace is not None
    return dict(result.trace)


def ids(rows: list[list[str]], column: int = 0) -> list[str]:
    return [row[column] for row in rows]


async def test_the_fused_ranks_and_scores(result: SearchResult) -> None:
    by_id = {hit.id: hit for hit in result.candidates}
    computed = []
    for brief in trace_of(result)["retrieved_hits"]:
        added = {entry.leg: f"{entry.contribution:.6f}" for entry in by_id[brief["id"]].legs}
        row = [str(brief["rank"]), brief["id"], added["dense"], added["bm25"]]
        computed.append([*row, f"{brief['fusion']:.6f}"])
    assert table(TEXT, "fused rank", "id", "dense adds", "bm25 adds", "fusion") == computed


async def test_the_relevance_the_grades_and_who_survives(result: SearchResult) -> None:
    rows = table(TEXT, "id", "logit", "relevance", "grade", "survives")
    dropped = {w["id"] for w in trace_of(result)["hits"] if w["outcome"] == "dropped by correction"}
    scored = sorted(result.candidates, key=lambda hit: -hit.stamp.strength if hit.stamp else 0.0)
    assert rows == [
        [
            hit.id,
            f"{hit.stamp.logit:.3f}",
            f"{hit.stamp.relevance:.4f}",
            hit.grade.value,
            "no" if hit.id in dropped else "yes",
        ]
        for hit in scored
        if hit.stamp is not None and hit.grade is not None
    ]


async def test_the_reranked_boosted_and_trimmed_order(result: SearchResult) -> None:
    header = ("rerank rank", "id", "logit", "factor", "boosted", "final rank", "outcome")
    by_id = {hit.id: hit for hit in result.candidates}
    ways = {way["id"]: way for way in trace_of(result)["hits"]}
    computed = []
    for brief in trace_of(result)["reranked_hits"]:
        way, boost = ways[brief["id"]], by_id[brief["id"]].boost
        assert boost is not None
        row = [str(way["rerank_rank"]), brief["id"], f"{brief['logit']:.3f}"]
        row += [f"{boost.factor:g}", f"{boost.value:.3f}"]
        computed.append([*row, str(way["final_rank"] or ""), way["outcome"]])
    assert table(TEXT, *header) == computed


async def test_the_context_is_the_one_that_is_printed(result: SearchResult) -> None:
    (block,) = blocks_in(TEXT, "text")
    assert result.context is not None
    assert result.context.text + "\n" == block.text


CHANGES = table(
    TEXT, "change", "verdict", "corrections", "forward_passes", "reused_scores", "returned"
)


@pytest.mark.parametrize("row", CHANGES, ids=ids(CHANGES))
async def test_what_one_change_does(row: list[str]) -> None:
    result = await run({**read_request(), **json.loads(row[0])})
    assert row[1:] == [
        result.verdict,
        str(result.corrections),
        str(result.tally.passes),
        str(result.tally.reused),
        ", ".join(hit.id for hit in result.hits),
    ]


FILTERS = table(section(PAGE, "Filters"), "operator", "example", "the document above passes")


@pytest.mark.parametrize("row", FILTERS, ids=ids(FILTERS, 1))
def test_a_filter_matches_as_the_page_says(row: list[str]) -> None:
    (metadata,) = blocks_in(section(PAGE, "Filters"), "json")
    passes = matches(parse_filter(json.loads(row[1])), json.loads(metadata.text))
    assert ("yes" if passes else "no") == row[2]
    assert row[0] in json.loads(row[1])


def test_every_operator_of_filters_has_an_example() -> None:
    assert set(ids(FILTERS)) == {*GROUPS, *OPERATORS}


def option_names(options: type[BaseModel]) -> Iterator[str]:
    """Every option by its own name, but for the switches."""
    for name, field in options.model_fields.items():
        inner = options_in(field.annotation)
        if name != "enabled":
            yield name
        for kind in inner:
            yield from option_names(kind)


@pytest.mark.parametrize("name", sorted(set(option_names(SearchOptions))))
def test_every_option_of_a_search_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE or f".{name}`" in PAGE


async def test_every_field_of_the_trace_is_explained(result: SearchResult) -> None:
    trace = trace_of(result)
    assert set(ids(table(PAGE, "in trace", "holds"))) == set(trace)
    assert set(ids(table(PAGE, "of each hit", "says"))) == set(trace["hits"][0])


async def test_every_field_of_an_answer_is_explained(result: SearchResult) -> None:
    asked = Asked("id", CorpusKey("t", "c"), "q", EPOCH)
    answer = search_answer(result, asked, result.degraded)
    fields = {*answer, *answer["hits"][0]}
    assert {field for field in fields if f"`{field}`" not in OPERATIONS + PAGE} == set()
