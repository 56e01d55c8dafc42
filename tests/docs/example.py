"""The worked example of docs/pipeline.md: its inputs as printed there, and the search on them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.api.native import SearchRequest
from deployments.needs import Parts
from deployments.planning import plan_search, resolve
from deployments.search_options import SearchArgs
from pipeline.chain import Ports, SearchResult, search
from pipeline.documents import Chunk
from pipeline.legs import LegHit, LegResult, Variant
from tests.docs.pages import ROOT, blocks_in, section, table
from tests.fakes import CountingScorer

PAGE = (ROOT / "docs" / "pipeline.md").read_text()
TEXT = section(PAGE, "A worked example")
ALL_PARTS = Parts(scorer=True, embedder=True, chat=True, web_search=True)

PLACE = re.compile(r"(\d+) \((.+)\)")
# Rank and hit.
Placed = tuple[int, LegHit]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The chunks with the logit of each text, and each leg's whole ranking."""

    logits: Mapping[str, float]
    rankings: Mapping[str, Sequence[LegHit]]

    async def retrieve(self, variants: Sequence[Variant], depth: int) -> list[LegResult]:
        return [
            LegResult(leg, variant.number, depth, tuple(ranking[:depth]))
            for variant in variants
            for leg, ranking in self.rankings.items()
        ]


def read_corpus() -> Corpus:
    rows = table(TEXT, "id", "text", "year", "dense", "bm25", "logit")
    logits = {text: float(logit) for _, text, _, _, _, logit in rows}
    placed: dict[str, list[Placed]] = {"dense": [], "bm25": []}
    for id, text, year, dense, bm25, _ in rows:
        chunk = Chunk(id, id, 0, text, metadata={"year": int(year)} if year else {})
        for leg, cell in (("dense", dense), ("bm25", bm25)):
            if place := PLACE.fullmatch(cell):
                placed[leg].append((int(place[1]), LegHit(chunk, float(place[2]))))
    return Corpus(logits, {leg: in_order(hits) for leg, hits in placed.items()})


def in_order(placed: Sequence[Placed]) -> list[LegHit]:
    """Sort by rank; the ranks must have no gap, and must be those that the scores give."""
    ordered = sorted(placed, key=lambda one: one[0])
    hits = [hit for _, hit in ordered]
    assert [rank for rank, _ in ordered] == list(range(1, len(ordered) + 1))
    assert hits == sorted(hits, key=lambda hit: -hit.score)
    return hits


def read_request() -> dict[str, Any]:
    (block,) = blocks_in(TEXT, "json")
    request: dict[str, Any] = json.loads(block.text)
    return request


async def run(request: Mapping[str, Any]) -> SearchResult:
    """Search as the application would: the request is validated and planned, then run."""
    given = SearchRequest.model_validate(request).given()
    plan = plan_search(resolve(SearchArgs(), given, ALL_PARTS), given)
    corpus = read_corpus()
    return await search(plan, Ports(corpus.retrieve, score=CountingScorer(corpus.logits)))
