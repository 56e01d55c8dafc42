"""Shadow rerankers: compared in the background, never served."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from deployments.composer import Composer
from deployments.config import AppArgs
from deployments.provider_options import ProviderArgs
from deployments.providers.http import Http
from deployments.providers.rerankers import RemoteScorer
from deployments.remote_client import RemoteClient
from deployments.shadows import MAX_PAIRS, MAX_RUNNING, TRIES, Served, Shadows, served_of
from pipeline.chain import Ports, SearchPlan, SearchResult, search
from pipeline.corrective import CorrectionPlan
from pipeline.documents import CorpusKey
from pipeline.errors import OnepassError, Unavailable
from pipeline.reranking import RerankPlan
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally
from tests.deployments.providers.service import Reply, Service
from tests.fakes import CountingScorer, FakeLegs
from tracker.records import ComparisonRecord

CORPUS = CorpusKey("t", "c")
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
SERVED = Served(
    "r",
    CORPUS,
    "q",
    AT,
    "minilm@1",
    tuple(Pair(f"digest {text}", text) for text in "abcd"),
    (4.0, 3.0, 2.0, 1.0),
)


class FakeShadow(RemoteScorer):
    """Scores texts from a table, when it may; or fails."""

    def __init__(self, scores: Mapping[str, float], error: OnepassError | None = None) -> None:
        super().__init__(ProviderArgs(base_url="http://x", dialect="cohere", model="m"), Http())
        self.scores = scores
        self.error = error
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def score(self, query: str, pairs: Sequence[Pair], timeout_s: float) -> ScoreAnswer:
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        scores = tuple(PairScore(None, self.scores.get(pair.text)) for pair in pairs)
        return ScoreAnswer(self.args.label, scores, Tally(passes=len(pairs)))


class Tracker:
    """Keeps what it is sent; does not know a retrieval for so many `refusals`, or is down."""

    def __init__(self, refusals: int = 0, error: OnepassError | None = None) -> None:
        self.refusals = refusals
        self.error = error
        self.sent: list[Sequence[ComparisonRecord]] = []

    async def __call__(self, records: Sequence[ComparisonRecord]) -> Sequence[str]:
        if self.error is not None:
            raise self.error
        self.sent.append(records)
        self.refusals -= 1
        return ["r"] if self.refusals >= 0 else []

    @property
    def records(self) -> list[ComparisonRecord]:
        return [replace(one, latency_ms=None) for one in self.sent[-1]]


AGREEING = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}
EXCHANGED = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.7}
RECORD = ComparisonRecord("r", "t", "c", AT, "minilm@1", "cohere/m", 4, 1.0, 1.0, 10, None, None)


async def compared(tracker: Tracker, *shadows: RemoteScorer, served: Served = SERVED) -> Shadows:
    """Compare one ranking and wait until that is done."""
    owner = Shadows(shadows, tracker, retry_s=0.001)
    owner.compare(served)
    await asyncio.gather(*owner.running)
    return owner


async def test_a_shadow_scores_the_same_pairs_and_how_far_it_agrees_is_recorded() -> None:
    tracker = Tracker()
    owner = await compared(tracker, FakeShadow(AGREEING), FakeShadow(EXCHANGED))
    assert tracker.records == [RECORD, replace(RECORD, kendall=2 / 3)]
    assert [one.latency_ms is not None for one in tracker.sent[0]] == [True, True]
    assert (owner.compared, owner.dropped, owner.running) == (1, 0, set())


async def test_the_request_does_not_wait() -> None:
    shadow, tracker = FakeShadow(AGREEING), Tracker()
    shadow.may_answer.clear()
    owner = Shadows([shadow], tracker)
    owner.compare(SERVED)
    assert (len(owner.running), tracker.sent) == (1, [])
    shadow.may_answer.set()
    await asyncio.gather(*owner.running)
    assert tracker.records == [RECORD]


async def test_what_exceeds_the_bound_is_dropped_and_counted() -> None:
    shadow, tracker = FakeShadow(AGREEING), Tracker()
    shadow.may_answer.clear()
    owner = Shadows([shadow], tracker)
    for _ in range(MAX_RUNNING + 3):
        owner.compare(SERVED)
    assert (len(owner.running), owner.dropped) == (MAX_RUNNING, 3)
    shadow.may_answer.set()
    await asyncio.gather(*owner.running)
    assert (owner.compared, owner.dropped) == (MAX_RUNNING, 3)


async def test_a_shadow_that_fails_is_a_record_with_its_error_and_takes_no_other_along() -> None:
    tracker = Tracker()
    failing = FakeShadow({}, Unavailable("cohere/m answered 503"))
    await compared(tracker, failing, FakeShadow(AGREEING))
    failed = replace(RECORD, pairs=0, kendall=None, overlap=None, error="cohere/m answered 503")
    assert tracker.records == [failed, RECORD]
    assert tracker.sent[0][0].latency_ms is None


async def test_only_pairs_that_both_scored_are_compared() -> None:
    tracker = Tracker()
    await compared(tracker, FakeShadow({"a": 0.1, "d": 0.9}))
    assert tracker.records == [replace(RECORD, pairs=2, kendall=-1.0)]


async def test_a_comparison_that_overtakes_its_retrieval_is_sent_again() -> None:
    tracker = Tracker(refusals=2)
    owner = await compared(tracker, FakeShadow(AGREEING))
    assert (len(tracker.sent), owner.compared, owner.dropped) == (3, 1, 0)


async def test_a_retrieval_that_never_comes_has_its_comparison_dropped() -> None:
    tracker = Tracker(refusals=99)
    owner = await compared(tracker, FakeShadow(AGREEING))
    assert (len(tracker.sent), owner.compared, owner.dropped) == (TRIES, 0, 1)


async def test_a_tracker_that_is_down_has_the_comparison_dropped() -> None:
    owner = await compared(Tracker(error=Unavailable("down")), FakeShadow(AGREEING))
    assert (owner.compared, owner.dropped) == (0, 1)


async def test_closing_ends_what_runs() -> None:
    shadow, tracker = FakeShadow(AGREEING), Tracker()
    shadow.may_answer.clear()
    owner = Shadows([shadow], tracker)
    owner.compare(SERVED)
    await owner.close()
    assert (tracker.sent, owner.running) == ([], set())


async def test_without_shadows_or_scores_nothing_runs() -> None:
    owner = Shadows([], Tracker())
    owner.compare(SERVED)
    other = Shadows([FakeShadow(AGREEING)], Tracker())
    other.compare(None)
    assert (owner.running, other.running, owner.dropped) == (set(), set(), 0)


async def result_of(plan: SearchPlan, scorer: CountingScorer, *ids: str) -> SearchResult:
    return await search(plan, Ports(FakeLegs(dense=ids).retrieve, score=scorer))


async def test_what_is_compared_is_every_scored_candidate_the_dropped_too() -> None:
    plan = SearchPlan("q", 4, 1, correction=CorrectionPlan(), rerank=RerankPlan())
    result = await result_of(plan, CountingScorer({"a": -9.0, "b": 3.0, "c": 2.0}), "a", "b", "c")
    served = served_of(result, "r", CORPUS, AT)
    assert served is not None
    assert [pair.text for pair in served.pairs] == ["a", "b", "c"]
    assert (served.strengths, served.model, served.query) == ((-9.0, 3.0, 2.0), "fake@1", "q")


async def test_fewer_than_two_scores_are_no_ranking() -> None:
    scored = SearchPlan("q", 4, 4, rerank=RerankPlan())
    result = await result_of(scored, CountingScorer({"a": 1.0}), "a")
    assert served_of(result, "r", CORPUS, AT) is None
    result = await result_of(replace(scored, rerank=None), CountingScorer({}), "a", "b")
    assert served_of(result, "r", CORPUS, AT) is None


async def test_hits_that_hold_one_text_are_one_pair() -> None:
    legs = FakeLegs(dense=["a", "twin", "b"])
    legs.texts = {"twin": "a"}
    ports = Ports(legs.retrieve, score=CountingScorer({"a": 3.0, "b": 2.0}))
    result = await search(SearchPlan("q", 4, 4, rerank=RerankPlan()), ports)
    assert len(result.candidates) == 3
    served = served_of(result, "r", CORPUS, AT)
    assert served is not None
    assert ([pair.text for pair in served.pairs], served.strengths) == (["a", "b"], (3.0, 2.0))
    tracker = Tracker()
    await compared(tracker, FakeShadow({"a": 0.9, "b": 0.1}), served=served)
    (record,) = tracker.records
    assert (record.pairs, record.kendall, record.overlap) == (2, 1.0, 1.0)


async def test_a_text_that_stands_twice_is_no_ranking() -> None:
    legs = FakeLegs(dense=["a", "twin"])
    legs.texts = {"twin": "a"}
    ports = Ports(legs.retrieve, score=CountingScorer({"a": 3.0}))
    result = await search(SearchPlan("q", 4, 4, rerank=RerankPlan()), ports)
    assert served_of(result, "r", CORPUS, AT) is None


async def test_no_more_pairs_of_a_request_are_compared_than_allowed() -> None:
    ids = [f"n{n:03d}" for n in range(MAX_PAIRS + 20)]
    plan = SearchPlan("q", 200, 5, rerank=RerankPlan())
    result = await result_of(plan, CountingScorer(dict.fromkeys(ids, 1.0)), *ids)
    served = served_of(result, "r", CORPUS, AT)
    assert served is not None
    assert len(served.pairs) == MAX_PAIRS


async def test_nothing_but_the_query_and_the_texts_goes_out(service: Service) -> None:
    service.says(Reply({"results": [{"index": 0, "relevance_score": 0.5}]}))
    result = await result_of(
        SearchPlan("q", 4, 4, rerank=RerankPlan()), CountingScorer({"a": 1.0, "b": 2.0}), "a", "b"
    )
    served = served_of(result, "retrieval-id", CorpusKey("some-tenant", "some-corpus"), AT)
    assert served is not None
    http = Http()
    args = ProviderArgs(base_url=service.url, dialect="cohere", model="m")
    await compared(Tracker(), RemoteScorer(args, http), served=served)
    await http.close()
    assert service.bodies == [{"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2}]
    sent = str(service.asked[0].headers) + service.asked[0].path
    for secret in ("retrieval-id", "some-tenant", "some-corpus"):
        assert secret not in sent


async def test_closing_ends_a_comparison_whose_service_hangs(service: Service) -> None:
    service.says(Reply(hangs=True))
    http, tracker = Http(), Tracker()
    args = ProviderArgs(base_url=service.url, dialect="cohere", model="m")
    owner = Shadows([RemoteScorer(args, http)], tracker)
    owner.compare(SERVED)
    while not service.asked:
        await asyncio.sleep(0.01)
    await owner.close()
    await http.close()
    assert (tracker.sent, owner.running) == ([], set())


async def test_shadows_have_connections_of_their_own() -> None:
    remote = {"dialect": "cohere", "base_url": "http://localhost:1", "model": "m"}
    args = AppArgs.model_validate({"scorer": remote, "shadow": [remote, remote]})
    handle: Any = object()
    composer = Composer(args, handle, None, None, handle)
    assert composer.scorers is not None
    (client,) = composer.scorers.clients
    assert isinstance(client, RemoteClient)
    first, second = composer.shadows.scorers
    assert first.http is second.http
    assert first.http is not client.remote.http
    await composer.close()
