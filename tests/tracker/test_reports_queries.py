"""Reports on queries: literal searches in, exact rows out."""

from __future__ import annotations

import pytest

from tests.tracker.searches import hit, judge, searched
from tests.tracker.stores import ALL, NOON, minute
from tracker.records import HitRecord, Window
from tracker.report_rows import (
    CorrelationEdge,
    LowRelevanceQuery,
    QueryCluster,
    QueryFrequency,
    ZeroHitQuery,
)
from tracker.store import TrackerStore


def test_queries_count_without_regard_to_case_and_surrounding_space(store: TrackerStore) -> None:
    store.record(
        [
            searched("r1", query="Opening hours", at=1),
            searched("r2", query="\topening HOURS \n", at=3),
            searched("r3", query="opening  hours", at=2),
            searched("r4", query="opening hours", at=4, corpus="wiki"),
        ]
    )
    assert store.report("query-frequency", ALL) == [
        QueryFrequency("docs", "opening hours", 2, 0.5, minute(1), minute(3)),
        QueryFrequency("docs", "opening  hours", 1, 0.25, minute(2), minute(2)),
        QueryFrequency("wiki", "opening hours", 1, 0.25, minute(4), minute(4)),
    ]


def test_a_query_is_of_low_relevance_if_its_best_hits_are_on_average(store: TrackerStore) -> None:
    store.record(
        [
            searched("r1", hit("a", 1, 0.125), hit("b", 2, 0.5), query="hard"),
            searched("r2", hit("a", None, 0.25), query="hard", at=1),
            searched("r3", hit("a", 1, 0.25), query="harder"),
            searched("r4", hit("a", 1, 0.5), hit("b", 2, 0.0), query="fair"),
            searched("r5", hit("a", 1), query="not scored"),
            searched("r6", hit("a", 1, 0.9, origin="http"), query="only on the web"),
            searched("r7", query="nothing"),
        ]
    )
    assert store.report("low-relevance-queries", ALL) == [
        LowRelevanceQuery("docs", "harder", 1, 0.25, 0.25, NOON),
        LowRelevanceQuery("docs", "hard", 2, 0.375, 0.5, minute(1)),
    ]


def test_a_zero_hit_query_had_an_empty_answer_found_or_dropped(store: TrackerStore) -> None:
    store.record(
        [
            searched("r1", query="unknown", verdict="no_hits"),
            searched("r2", hit("a"), query="Unknown", verdict="incorrect", at=1),
            searched("r3", hit("a", 1), query="unknown", at=2),
            searched("r4", hit("a"), query="dropped", verdict="incorrect", at=3),
            searched("r5", hit("a", 1), query="answered"),
            searched("r6", hit("a", 1, origin="http"), query="on the web", verdict="incorrect"),
        ]
    )
    assert store.report("zero-hit-queries", ALL) == [
        ZeroHitQuery("docs", "unknown", 3, 2, 1, minute(1)),
        ZeroHitQuery("docs", "dropped", 1, 1, 0, minute(3)),
    ]


def test_the_graph_has_an_edge_for_each_query_and_document_with_outcomes(
    store: TrackerStore,
) -> None:
    store.record(
        [
            searched(
                "r1", hit("a", 1, 0.75), hit("a", None, 0.25, chunk=1), hit("b", 2), query="Q"
            ),
            searched("r2", hit("a", 1, 0.5), query="q"),
            searched("r3", hit("b", 1, 0.5), query="rare"),
            searched("r4", hit("z", 1, 0.5, origin="http"), query="rare", corpus="wiki"),
        ]
    )
    judge(store, "r1", "a", "relevant")
    judge(store, "r2", "a", "highly_relevant")
    judge(store, "r3", "b", "not_relevant")
    assert store.report("correlation-graph", ALL) == [
        CorrelationEdge("docs", "q", 2, "a", 3, 2, 0.5, 0, 0, 1, 1),
        CorrelationEdge("docs", "q", 2, "b", 1, 1, None, 0, 0, 0, 0),
        CorrelationEdge("docs", "rare", 1, "b", 1, 1, 0.5, 1, 0, 0, 0),
    ]


def test_the_graph_is_that_of_the_100_most_frequent_queries(store: TrackerStore) -> None:
    often = [searched(f"a{n}", hit("a", 1), query=f"often {n:03}") for n in range(100)]
    again = [searched(f"b{n}", hit("a", 1), query=f"often {n:03}") for n in range(100)]
    store.record([*often, *again, searched("c", hit("a", 1), query="a rare one")])
    edges = store.report("correlation-graph", ALL, 1000)
    assert [edge.query for edge in edges] == [f"often {n:03}" for n in range(100)]


def found(*documents: str) -> list[HitRecord]:
    return [hit(document, rank) for rank, document in enumerate(documents, start=1)]


def test_queries_that_find_half_the_same_documents_are_a_cluster(store: TrackerStore) -> None:
    store.record(
        [
            searched("r1", *found("a", "b", "c"), query="one"),
            searched("r2", *found("a", "b", "d"), query="two"),
            searched("r3", *found("a", "b", "c"), query="one"),
            searched("r4", *found("a", "x", "y"), query="apart"),
        ]
    )
    assert store.report("query-clusters", ALL) == [
        QueryCluster("docs", ["one", "two"], 3, 1, 0.5, ["a", "b"])
    ]


def test_a_cluster_is_all_that_links_lead_to(store: TrackerStore) -> None:
    chain = ["abcd", "bcde", "cdef", "defg"]
    store.record(
        [
            *(
                searched(f"r{n}", *found(*letters), query=letters)
                for n, letters in enumerate(chain)
            ),
            *(searched(f"s{n}", *found("y", "z"), query=f"pair {n}") for n in range(2)),
        ]
    )
    assert store.report("query-clusters", ALL) == [
        QueryCluster("docs", chain, 4, 3, pytest.approx(0.6), ["d"]),  # type: ignore[arg-type]
        QueryCluster("docs", ["pair 0", "pair 1"], 2, 1, 1.0, ["y", "z"]),
    ]


def test_queries_of_two_corpora_are_no_cluster_and_what_was_not_returned_links_nothing(
    store: TrackerStore,
) -> None:
    store.record(
        [
            searched("r1", *found("a", "b"), query="one"),
            searched("r2", *found("a", "b"), query="two", corpus="wiki"),
            searched("r3", hit("a"), hit("b"), query="three"),
        ]
    )
    assert store.report("query-clusters", ALL) == []


def test_a_query_stands_for_the_20_documents_that_it_returned_most(store: TrackerStore) -> None:
    usual = found(*(f"d{n:02}" for n in range(20)))
    odd = found(*(f"e{n:02}" for n in range(30)))
    store.record(
        [
            searched("r1", *usual, query="one"),
            searched("r2", *usual, query="one"),
            searched("r3", *odd, query="one"),
            searched("r4", *usual, query="two"),
        ]
    )
    (cluster,) = store.report("query-clusters", Window("acme"))
    assert (cluster.mean_jaccard, len(cluster.shared_documents)) == (1.0, 20)
