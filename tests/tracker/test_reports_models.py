"""Reports on time, scores and reranking: literal searches in, exact rows out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from tests.tracker.searches import hit, judge, searched
from tests.tracker.stores import ALL, NOON, minute
from tracker.records import RetrievalRecord
from tracker.report_rows import GradeMix, RerankLift, Reuse, ScoreDistribution, StageLatency
from tracker.store import TrackerStore

DAY = 24 * 60


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=timezone.utc)


def test_latency_is_told_by_stage_with_interpolated_quantiles(store: TrackerStore) -> None:
    store.record(
        [
            searched(
                f"r{n}", timings_ms={"total": 100.0 * n, **({"rerank": 8.0} if n == 1 else {})}
            )
            for n in range(11)
        ]
    )
    assert store.report("latency", ALL) == [
        StageLatency("total", 11, 500.0, 500.0, 900.0, 990.0, 1000.0),
        StageLatency("rerank", 1, 8.0, 8.0, 8.0, 8.0, 8.0),
    ]


def test_scores_are_told_by_version_of_the_model_the_newest_first(store: TrackerStore) -> None:
    relevances = (0.0, 0.25, 0.5, 0.75, 1.0)
    store.record(
        [
            searched("r1", *(hit("a", chunk=n, relevance=r) for n, r in enumerate(relevances))),
            searched("r2", hit("a", 1, 0.5), hit("b"), model="m@2", at=1),
            searched("r3", hit("a", 1), model=None, at=2),
        ]
    )
    # The quantiles of five evenly spaced values lie between them.
    rows = store.report("score-distribution", ALL)
    assert rows == [
        ScoreDistribution("m@2", 1, minute(1), minute(1), 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 5.0),
        ScoreDistribution("m@1", 5, NOON, NOON, 0.5, 0.05, 0.25, 0.5, 0.75, 0.95, 5.0),
    ]


def test_a_model_without_logits_has_no_mean_of_them(store: TrackerStore) -> None:
    remote = replace(hit("a", 1, 0.5), logit=None)
    store.record([searched("r1", remote, model="cohere/rerank")])
    (row,) = store.report("score-distribution", ALL)
    assert (row.mean_relevance, row.mean_logit) == (0.5, None)


def test_the_mix_of_grades_is_told_by_day_of_utc(store: TrackerStore) -> None:
    graded = [
        hit("a", 1, 0.9, grade="correct"),
        hit("b", 2, 0.4, grade="ambiguous"),
        hit("c", None, 0.1, grade="incorrect"),
        hit("d", None, 0.1, grade="incorrect"),
        hit("e"),
    ]
    store.record(
        [
            searched("r1", *graded, at=DAY / 2 - 1),  # the last minute of March 1st
            searched("r2", hit("a", 1), at=DAY / 2),
            searched("r3", graded[0], at=DAY / 2, corpus="wiki"),
        ]
    )
    assert store.report("grade-mix", ALL) == [
        GradeMix(day(2), "docs", 0, 0, 0, 1, None, None),
        GradeMix(day(2), "wiki", 1, 0, 0, 0, 1.0, 0.0),
        GradeMix(day(1), "docs", 1, 1, 2, 1, 0.25, 0.5),
    ]


def test_reuse_says_where_scores_came_from_and_nothing_has_no_rate(store: TrackerStore) -> None:
    store.record(
        [
            with_scores(searched("r1"), 6, 3, 1, 10),
            with_scores(searched("r2"), 2, 0, 0, 0),
            with_scores(searched("r3", at=DAY), 0, 0, 0, 0),
        ]
    )
    assert store.report("reuse", ALL) == [
        Reuse(day(2), "docs", 1, 0, 0, 0, 0, None, None),
        Reuse(day(1), "docs", 2, 8, 3, 1, 10, 0.25, 10 / 22),
    ]


def with_scores(
    record: RetrievalRecord, passes: int, cached: int, shared: int, reused: int
) -> RetrievalRecord:
    return replace(
        record,
        forward_passes=passes,
        cached_scores=cached,
        shared_scores=shared,
        reused_scores=reused,
    )


def test_the_lift_compares_the_fused_place_of_what_is_relevant_with_the_final_one(
    store: TrackerStore,
) -> None:
    moved = [hit("a", 2, fusion=0.9), hit("b", 1, fusion=0.8), hit("c", 3, fusion=0.7)]
    store.record([searched("r1", *moved)])
    judge(store, "r1", "b", "relevant")
    judge(store, "r1", "a", "highly_relevant")
    judge(store, "r1", "c", "not_relevant")
    assert store.report("rerank-lift", ALL) == [
        RerankLift("docs", "m@1", 2, 0, 1, 0, 1, 0.5, 1.5, 1.5, 0.75, 0.75)
    ]


def test_the_lift_counts_a_document_at_its_best_chunk_and_what_was_not_returned_apart(
    store: TrackerStore,
) -> None:
    chunks = [
        hit("a", None, fusion=0.9),
        hit("b", 2, fusion=0.8),
        hit("b", 1, fusion=0.7, chunk=1),
        hit("c", 3, fusion=0.6),
    ]
    store.record([searched("r1", *chunks)])
    for document in ("a", "b", "c"):
        judge(store, "r1", document, "relevant")
    # b: 2nd by fusion, 1st as answered; c: 4th, then 3rd.
    assert store.report("rerank-lift", ALL) == [
        RerankLift("docs", "m@1", 3, 1, 2, 0, 0, 1.0, 3.0, 2.0, 0.375, 2 / 3)
    ]


def test_the_lift_is_not_that_of_correction_and_not_that_of_a_fallback(
    store: TrackerStore,
) -> None:
    hits = [
        hit("dropped", None, fusion=0.9, grade="incorrect"),
        hit("a", 2, fusion=0.8, grade="correct"),
        hit("b", 3, fusion=0.7, grade="correct"),
        hit("web", 1, fusion=1.0, origin="http"),
    ]
    store.record([searched("r1", *hits)])
    judge(store, "r1", "a", "relevant")
    judge(store, "r1", "b", "relevant")
    (row,) = store.report("rerank-lift", ALL)
    assert (row.up, row.same, row.down) == (0, 2, 0)


def test_only_reranked_searches_have_a_lift(store: TrackerStore) -> None:
    store.record([searched("r1", hit("a", 1), rerank_applied=False)])
    judge(store, "r1", "a", "relevant")
    assert store.report("rerank-lift", ALL) == []


def test_a_lift_of_nothing_returned_has_no_share(store: TrackerStore) -> None:
    store.record([searched("r1", hit("a"))])
    judge(store, "r1", "a", "relevant")
    assert store.report("rerank-lift", ALL) == [
        RerankLift("docs", "m@1", 1, 1, 0, 0, 0, None, None, None, None, None)
    ]
