"""A search's result on the wire and in the tracker."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from deployments.answers import Asked, hit_answer, hit_record, retrieval_record, search_answer
from pipeline.boosting import BoostRule
from pipeline.chain import Ports, SearchPlan, SearchResult, search
from pipeline.context import ContextPlan
from pipeline.corrective import CorrectionPlan
from pipeline.documents import CorpusKey
from pipeline.hits import Boost, Hit, LegEntry
from pipeline.refinement import RefinePlan
from pipeline.reranking import RerankPlan
from pipeline.stamps import CROSS_ENCODER_SCORE, GRADE, RERANKED, TRACKED, Grade, Stamp
from tests.fakes import CountingScorer, FakeLegs

ASKED = Asked("r", CorpusKey("t", "c"), "q", datetime(2026, 1, 1, tzinfo=timezone.utc))
STAMP = Stamp(7.45, 0.99942, "m@1", "pair", truncated=True)
ENTRY = LegEntry("dense", 0, 2, 0.61, 0.0161)
HIT = Hit(
    "guide#3",
    "guide",
    3,
    "text",
    title="Guide",
    source="s",
    metadata={"lang": "en"},
    rank=1,
    legs=(ENTRY,),
    retrieval_score=0.61,
    fusion_score=0.0161,
)
SCORED = HIT.marked(CROSS_ENCODER_SCORE, STAMP).marked(GRADE, Grade("correct", 0.7, 0.3))


async def result(plan: SearchPlan, *ids: str, **logits: float) -> SearchResult:
    scorer = CountingScorer(logits)
    return await search(plan, Ports(FakeLegs(dense=ids).retrieve, score=scorer))


def test_a_hit_shows_its_scores_by_name_logit_and_relevance_both() -> None:
    assert hit_answer(SCORED) == {
        "id": "guide#3",
        "document_id": "guide",
        "chunk_index": 3,
        "title": "Guide",
        "text": "text",
        "source": "s",
        "origin": None,
        "refined": None,
        "metadata": {"lang": "en"},
        "rank": 1,
        "score": 0.99942,
        "score_kind": "cross_encoder",
        "scored": True,
        "truncated": True,
        "grade": "correct",
        "scores": {
            "retrieval": 0.61,
            "fusion": 0.0161,
            "cross_encoder": {"logit": 7.45, "relevance": 0.99942},
            "boosted": None,
        },
        "legs": [{"leg": "dense", "variant": 0, "rank": 2, "score": 0.61, "contribution": 0.0161}],
    }


def test_a_hit_that_no_model_scored_has_no_score_of_one() -> None:
    answer = hit_answer(HIT)
    assert (answer["scored"], answer["grade"], answer["truncated"]) == (False, None, False)
    assert (answer["scores"]["cross_encoder"], answer["score_kind"]) == (None, "fusion")
    bare = hit_answer(replace(HIT, fusion_score=None))
    assert (bare["score"], bare["score_kind"]) == (0.61, "retrieval")


def test_a_score_of_a_service_without_logits_has_none() -> None:
    answer = hit_answer(HIT.marked(CROSS_ENCODER_SCORE, replace(STAMP, logit=None)))
    assert answer["scores"]["cross_encoder"] == {"logit": None, "relevance": 0.99942}


def test_no_reserved_key_is_shown_whatever_stands_under_it() -> None:
    planted = dict.fromkeys((CROSS_ENCODER_SCORE, RERANKED, TRACKED, GRADE), 99)
    answer = hit_answer(replace(HIT, metadata={"lang": "en", **planted}))
    assert (answer["metadata"], answer["scored"], answer["grade"]) == ({"lang": "en"}, False, None)


def test_what_boosting_refining_and_another_source_did_is_shown() -> None:
    changed = replace(
        SCORED, boost=Boost(2.0, 8.14, "boosted_logit"), refined="te", origin="corpus:other"
    )
    answer = hit_answer(changed)
    assert (answer["score"], answer["score_kind"]) == (8.14, "boosted_logit")
    assert answer["scores"]["boosted"] == {"factor": 2.0, "value": 8.14}
    assert (answer["text"], answer["refined"], answer["origin"]) == ("text", "te", "corpus:other")
    assert answer["scores"]["cross_encoder"]["logit"] == 7.45


ALWAYS: dict[str, Any] = {
    "retrieval_id": "r",
    "query": "q",
    "rewritten_query": None,
    "corpus": "c",
    "hits": [],
    "context": None,
    "citations": [],
    "left_out": [],
    "verdict": "no_hits",
    "corrections": 0,
    "rerank_applied": False,
    "degraded": ["tracking"],
    "forward_passes": 0,
    "reused_scores": 0,
    "cached_scores": 0,
    "shared_scores": 0,
    "model": None,
    "trace": None,
}


async def test_every_field_is_always_there() -> None:
    answer = search_answer(await result(SearchPlan("q")), ASKED, ("tracking",))
    timings = answer.pop("timings_ms")
    assert answer == ALWAYS
    assert set(timings) == {"embed", "retrieve", "correct", "rerank", "refine", "assemble", "total"}


async def test_counters_context_and_citations_are_the_results_own() -> None:
    plan = SearchPlan(
        "q",
        4,
        4,
        correction=CorrectionPlan(),
        rerank=RerankPlan(),
        refine=RefinePlan(),
        context=ContextPlan(max_tokens=2),
        include_trace=True,
    )
    answer = search_answer(await result(plan, "a", "b", "c", a=2.0, b=3.0, c=-9.0), ASKED, ())
    assert [hit["id"] for hit in answer["hits"]] == ["b", "a"]
    assert (answer["context"], answer["left_out"]) == ("[1] b", ["a"])
    assert answer["citations"] == [
        {"number": 1, "hit_id": "b", "document_id": "b", "source": None, "origin": None}
    ]
    assert (answer["forward_passes"], answer["reused_scores"], answer["model"]) == (3, 4, "fake@1")
    assert (answer["verdict"], answer["rerank_applied"]) == ("correct", True)
    assert answer["trace"]["counters"]["passes"] == 3


async def test_the_rewritten_query_is_shown_where_it_differs() -> None:
    found = await result(SearchPlan("q"))
    answer = search_answer(replace(found, query="Who was he?"), ASKED, ())
    assert (answer["query"], answer["rewritten_query"]) == ("q", "Who was he?")


async def test_scores_shown_never_increase_and_unscored_hits_follow() -> None:
    plan = SearchPlan("q", 4, 4, rerank=RerankPlan(top_n=2), boosts=(BoostRule(factor=2.0),))
    answer = search_answer(await result(plan, *"abcd", a=-1.0, b=1.0), ASKED, ())
    assert [(hit["id"], hit["scored"], hit["score_kind"]) for hit in answer["hits"]] == [
        ("b", True, "boosted_logit"),
        ("a", True, "boosted_logit"),
        ("c", False, "boosted_fusion"),
        ("d", False, "boosted_fusion"),
    ]
    shown = [hit["score"] for hit in answer["hits"]]
    assert shown[0] > shown[1]
    assert shown[2] > shown[3]


async def test_every_candidate_is_recorded_the_dropped_with_their_scores() -> None:
    plan = SearchPlan("q", 4, 1, correction=CorrectionPlan(), rerank=RerankPlan())
    record = retrieval_record(await result(plan, "a", "b", "c", a=-9.0, b=3.0, c=2.0), ASKED)
    assert (record.retrieval_id, record.tenant, record.corpus) == ("r", "t", "c")
    assert (record.forward_passes, record.reused_scores, record.model) == (3, 2, "fake@1")
    assert [(hit.hit_id, hit.rank, hit.returned, hit.grade, hit.logit) for hit in record.hits] == [
        ("a", None, False, "incorrect", -9.0),
        ("b", 1, True, "correct", 3.0),
        ("c", None, False, "correct", 2.0),
    ]


def test_a_row_holds_every_score_by_name_and_none_that_was_never_computed() -> None:
    row = hit_record(SCORED)
    assert (row.retrieval_rank, row.retrieval_score, row.fusion_score) == (2, 0.61, 0.0161)
    assert (row.logit, row.relevance, row.grade, row.scored) == (7.45, 0.99942, "correct", True)
    bare = hit_record(HIT)
    assert (bare.logit, bare.relevance, bare.grade, bare.scored) == (None, None, None, False)
