"""What a search may call: each part as a plain callable, on scripted handles and real services."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from deployments.config import AppArgs
from deployments.needs import Parts
from deployments.planning import plan_search, resolve
from deployments.provider_options import ChatArgs, ProviderArgs, WebSearchArgs
from deployments.providers.chat import Chat
from deployments.providers.http import Http
from deployments.providers.web import WebSearch
from deployments.reach import Reach
from deployments.scorers import Scorers, make_scorers
from deployments.search_options import SearchArgs
from pipeline.chain import Ports, SearchPlan, search
from pipeline.documents import Chunk, CorpusKey
from pipeline.errors import NotFound, Overloaded, Unavailable
from pipeline.filters import AllOf, parse_filter
from pipeline.hits import LegEntry
from pipeline.legs import LegHit, LegResult, Variant
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally
from pipeline.sources import SourceRules
from pipeline.vectors import NO_ENCODERS, Embedded
from tests.deployments.handles import ScriptedHandle
from tests.deployments.providers.service import Reply, Service

CORPUS = CorpusKey("t", "c")
EVERYTHING = Parts(scorer=True, embedder=True, chat=True, web_search=True)
QUERY = Variant(0, "original", "q")
YEAR = parse_filter({"field": "year", "gte": 2020})


def reached(
    retrieval: Any = None,
    *,
    request: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    embedder: Any = None,
    scorers: Scorers | None = None,
    chat: Chat | None = None,
    web: WebSearch | None = None,
) -> tuple[SearchPlan, Ports]:
    given = {"query": "q", "corpus": "c", **(request or {})}
    configured = SearchArgs.model_validate(defaults or {})
    options = resolve(configured, given, EVERYTHING)
    plan = plan_search(options, given)
    reach = Reach(retrieval, embedder, scorers, chat, web, leg_timeout_ms=5000)
    return plan, reach.ports(plan, options, configured, given, CORPUS, time.monotonic() + 3600)


def found(leg: str, *ids: str, variant: int = 0) -> LegResult:
    hits = tuple(LegHit(Chunk(one, one, 0, one, metadata={"private": one}), 1.0) for one in ids)
    return LegResult(leg, variant, 50, hits)


def correcting(fallback: str) -> Mapping[str, Any]:
    return {"corrective": {"enabled": True, "fallback": fallback}}


def local(*answers: Any) -> tuple[Scorers, Any]:
    handle: Any = ScriptedHandle(*answers)
    scorers = make_scorers(AppArgs(), handle, Http())
    assert scorers is not None
    return scorers, handle


def test_what_is_not_there_is_no_port() -> None:
    _, ports = reached()
    assert (ports.score, ports.generate, ports.fallback, ports.count) == (None,) * 4
    _, ports = reached(defaults=correcting("http"))
    assert ports.fallback is None


async def test_the_configured_filter_and_sources_hold_beside_the_requests() -> None:
    retrieval = ScriptedHandle([found("bm25", "a")])
    defaults = {"filter": {"field": "year", "gte": 2020}, "sources": {"block": ["secret/*"]}}
    asked = parse_filter({"field": "lang", "eq": "en"})
    request = {"filter": asked, "sources": {"allow": ["docs/*"]}}
    _, ports = reached(retrieval, request=request, defaults=defaults)
    await ports.retrieve([QUERY], 7)
    ((_, (corpus, ((number, query),), _)),) = retrieval.sent
    assert (corpus, number, query.leg, query.k, query.text) == (CORPUS, 0, "bm25", 7, "q")
    assert query.filter == AllOf((parse_filter(defaults["filter"]), asked))
    assert query.sources == (SourceRules(None, ("secret/*",)), SourceRules(("docs/*",)))


async def test_only_the_legs_asked_for_are_searched() -> None:
    retrieval = ScriptedHandle([found("bm25", "a")])
    _, ports = reached(retrieval, request={"legs": ["bm25"]}, embedder=ScriptedHandle())
    await ports.retrieve(await ports.embed([QUERY]), 7)
    ((_, (_, queries, _)),) = retrieval.sent
    assert [query.leg for _, query in queries] == ["bm25"]


async def test_another_corpus_of_the_same_tenant_is_asked_with_the_vectors_that_are_there() -> None:
    retrieval = ScriptedHandle([found("dense", "a", "b"), found("bm25", "b", "x")])
    embedder = ScriptedHandle(Embedded(np.ones((1, 2), np.float32), None, NO_ENCODERS))
    defaults = {**correcting("corpus:other"), "filter": {"field": "year", "gte": 2020}}
    _, ports = reached(retrieval, defaults=defaults, embedder=embedder)
    assert ports.fallback is not None
    variants = await ports.embed([QUERY])
    hits = (await ports.fallback("q", variants, 2)).hits
    assert [(hit.id, hit.metadata) for hit in hits] == [
        ("b", {"private": "b"}),
        ("a", {"private": "a"}),
    ]
    ((_, (corpus, queries, _)),) = retrieval.sent
    assert corpus == CorpusKey("t", "other")
    assert [(query.leg, query.k) for _, query in queries] == [("dense", 2), ("bm25", 2)]
    assert {query.filter for _, query in queries} == {parse_filter({"field": "year", "gte": 2020})}
    assert len(embedder.sent) == 1


async def test_another_corpus_is_narrowed_by_its_own_options_too() -> None:
    retrieval = ScriptedHandle([found("bm25", "x")])
    own = {"filter": {"field": "public", "eq": True}, "sources": {"block": ["salaries/*"]}}
    defaults = {**correcting("corpus:hr"), "corpora": {"hr": own}}
    _, ports = reached(retrieval, defaults=defaults, request={"filter": YEAR})
    assert ports.fallback is not None
    await ports.fallback("q", [QUERY], 5)
    ((_, (_, ((_, query),), _)),) = retrieval.sent
    assert query.filter == AllOf((YEAR, parse_filter(own["filter"])))
    assert query.sources == (SourceRules(None, ("salaries/*",)),)


async def test_the_corpus_that_is_asked_is_no_fallback_of_itself() -> None:
    _, ports = reached(ScriptedHandle(), defaults=correcting("corpus:c"))
    assert ports.fallback is None


async def test_a_full_scorer_is_overload_unless_it_is_to_be_taken_for_a_failed_one() -> None:
    for defaults, error in (({}, Overloaded), ({"on_overload": "degrade"}, Unavailable)):
        scorers, _ = local(Overloaded("full", None, 1))
        _, ports = reached(scorers=scorers, defaults=defaults)
        assert ports.score is not None
        with pytest.raises(error):
            await ports.score("q", [Pair("d", "text")])
        assert not scorers.breaker.is_open
        await scorers.close()


async def test_a_fallback_corpus_of_which_one_leg_fails_gives_the_others_hits_and_says_so() -> None:
    retrieval = ScriptedHandle([LegResult("dense", 0, 5, error="boom"), found("bm25", "x")])
    _, ports = reached(retrieval, defaults=correcting("corpus:other"))
    assert ports.fallback is not None
    given = await ports.fallback("q", [QUERY], 5)
    assert ([hit.id for hit in given.hits], str(given.failure)) == (
        ["x"],
        "legs of the fallback corpus failed: dense",
    )


@pytest.mark.parametrize("error", [NotFound("no such corpus", "corpus"), Unavailable("down")])
async def test_a_fallback_corpus_that_is_not_there_raises_what_correction_takes_as_data(
    error: Exception,
) -> None:
    _, ports = reached(ScriptedHandle(error), defaults=correcting("corpus:other"))
    assert ports.fallback is not None
    with pytest.raises(type(error)):
        await ports.fallback("q", [QUERY], 5)


async def test_a_web_search_gives_hits_whose_place_is_all_that_is_known(
    service: Service, http: Http
) -> None:
    results = [{"text": "one", "url": "https://e.org/1", "score": 9.0, "_reranked": "x"}]
    service.says(Reply({"results": [*results, {"text": "two"}]}))
    web = WebSearch(WebSearchArgs(base_url=service.url), http)
    _, ports = reached(defaults=correcting("http"), web=web)
    assert ports.fallback is not None
    first, second = (await ports.fallback("the judged query", [QUERY], 5)).hits
    assert service.bodies == [{"query": "the judged query", "top_k": 5}]
    assert (first.text, first.source, first.metadata) == ("one", "https://e.org/1", {})
    assert (first.legs, first.retrieval_score) == ((LegEntry("http", 0, 1, None, 1 / 61),), None)
    assert [hit.fusion_score for hit in (first, second)] == [1 / 61, 1 / 62]
    assert second.source is None


async def test_source_rules_hold_for_the_web_too(service: Service, http: Http) -> None:
    urls = ("https://good.org/1", "https://bad.org/2")
    service.says(Reply({"results": [{"text": url, "url": url} for url in urls]}))
    web = WebSearch(WebSearchArgs(base_url=service.url), http)
    request = {"sources": {"block": ["https://bad.org/*"]}}
    _, ports = reached(defaults=correcting("http"), web=web, request=request)
    assert ports.fallback is not None
    hits = (await ports.fallback("q", [QUERY], 5)).hits
    assert [hit.source for hit in hits] == ["https://good.org/1"]


async def test_a_chat_endpoint_writes_the_variants(service: Service, http: Http) -> None:
    service.says(Reply({"choices": [{"message": {"content": "written"}}]}))
    chat = Chat(ChatArgs(base_url=service.url, model="m"), http)
    _, ports = reached(chat=chat)
    assert ports.generate is not None
    assert await ports.generate([{"role": "user", "content": "hello"}]) == "written"
    assert service.bodies[0]["messages"] == [{"role": "user", "content": "hello"}]


async def test_the_scorers_own_tokenizer_counts_unless_an_estimate_is_asked_for() -> None:
    scorers, handle = local([3, 4])
    _, ports = reached(scorers=scorers)
    assert ports.count is not None
    assert await ports.count(["a", "b"]) == [3, 4]
    assert [arguments for _, arguments in handle.sent] == [(["a", "b"],)]
    _, ports = reached(scorers=scorers, request={"context": {"count": "estimate"}})
    assert ports.count is None


def test_a_remote_scorer_counts_no_tokens(http: Http) -> None:
    args = AppArgs(scorer=ProviderArgs(base_url="http://x", dialect="cohere", model="m"))
    _, ports = reached(scorers=make_scorers(args, None, http))
    assert ports.score is not None
    assert ports.count is None


async def test_a_search_runs_the_chain_on_what_it_reaches(service: Service, http: Http) -> None:
    service.says(Reply({"results": [{"text": "from outside"}]}))
    low, high = PairScore(-6.0, 0.002), PairScore(4.0, 0.98)
    scorers, _ = local(
        ScoreAnswer("m@1", (low,), Tally(passes=1)), ScoreAnswer("m@1", (high,), Tally(passes=1))
    )
    plan, ports = reached(
        ScriptedHandle([found("bm25", "a")]),
        defaults={
            **correcting("http"),
            "rerank": {"enabled": True},
            "context": {"count": "estimate"},
        },
        scorers=scorers,
        web=WebSearch(WebSearchArgs(base_url=service.url), http),
    )
    result = await search(plan, ports)
    assert [(hit.text, hit.origin) for hit in result.hits] == [("from outside", "http")]
    assert (result.verdict, result.degraded) == ("correct", ())
    assert (result.tally, result.rerank_applied) == (Tally(passes=2, reused=1), True)
