"""Reports on documents: literal searches in, exact rows out."""

from __future__ import annotations

from datetime import timedelta

from tests.tracker.searches import hit, judge, searched
from tests.tracker.stores import ALL, NOON, minute
from tracker.records import OUTCOMES, Outcome, Window
from tracker.report_rows import DocumentImpact, DocumentStats, QualitySignal, UnretrievedDocument
from tracker.store import TrackerStore

MONTH = timedelta(days=30)


def test_document_stats_count_chunks_and_the_searches_that_they_came_up_in(
    store: TrackerStore,
) -> None:
    store.record(
        [
            searched("r1", hit("a", 1, 0.75), hit("a", None, 0.25, chunk=1), hit("b", 2, 0.5)),
            searched("r2", hit("a", 1, 0.5), at=1),
            searched("r3", hit("b"), at=2),
        ]
    )
    assert store.report("document-stats", ALL) == [
        DocumentStats("docs", "a", 3, 2, 2, NOON, minute(1), 0.5, 0.75, 0, 0, 0, 0),
        DocumentStats("docs", "b", 2, 1, 2, NOON, minute(2), 0.5, 0.5, 0, 0, 0, 0),
    ]


def test_document_stats_count_judgements_by_outcome_however_late_they_came(
    store: TrackerStore,
) -> None:
    store.record([searched(f"r{n}", hit("a", 1), hit("b", 2)) for n in range(5)])
    outcomes: tuple[Outcome, ...] = (*OUTCOMES, "relevant")
    for number, outcome in enumerate(outcomes):
        judge(store, f"r{number}", "a", outcome, at=10_000)
    a, b = store.report("document-stats", Window("acme", until=minute(1)))
    assert (a.not_relevant, a.partially_relevant, a.relevant, a.highly_relevant) == (1, 1, 2, 1)
    assert (b.not_relevant, b.partially_relevant, b.relevant, b.highly_relevant) == (0, 0, 0, 0)


def test_a_document_that_nothing_scored_has_no_mean_relevance(store: TrackerStore) -> None:
    store.record([searched("r1", hit("a", 1))])
    (row,) = store.report("document-stats", ALL)
    assert (row.mean_relevance, row.best_relevance) == (None, None)


def test_what_a_fallback_found_is_no_document_of_the_corpus(store: TrackerStore) -> None:
    store.record_documents("acme", "docs", [("a", None)], NOON)
    store.record([searched("r1", hit("a", 1, 0.9, origin="corpus:other"))])
    assert store.report("document-stats", ALL) == []
    assert store.report("document-impact", ALL) == []
    assert [row.document_id for row in store.report("unretrieved-documents", ALL)] == ["a"]


def test_equal_ids_in_two_corpora_are_two_documents(store: TrackerStore) -> None:
    store.record([searched("r1", hit("a", 1)), searched("r2", hit("a", 1), corpus="wiki")])
    judge(store, "r2", "a", "relevant")
    rows = store.report("document-stats", ALL)
    assert [(row.corpus, row.relevant) for row in rows] == [("docs", 0), ("wiki", 1)]
    (row,) = store.report("document-stats", Window("acme", "wiki"))
    assert row.corpus == "wiki"


def test_unretrieved_documents_are_those_there_that_no_search_considered(
    store: TrackerStore,
) -> None:
    store.record_documents("acme", "docs", [("found", None), ("b", "B"), ("gone", None)], NOON)
    store.record_documents("acme", "docs", [("a", "A")], minute(-1))
    store.record_documents("acme", "docs", [("late", None)], minute(9))
    store.delete_documents("acme", "docs", ["gone"], minute(1))
    store.record([searched("r1", hit("found"))])
    assert store.report("unretrieved-documents", Window("acme", until=minute(9))) == [
        UnretrievedDocument("docs", "a", "A", minute(-1)),
        UnretrievedDocument("docs", "b", "B", NOON),
    ]


def test_a_document_deleted_after_the_window_was_there_when_it_ended(store: TrackerStore) -> None:
    store.record_documents("acme", "docs", [("a", None)], NOON)
    store.delete_documents("acme", "docs", ["a"], minute(5))
    ended = Window("acme", until=minute(5))
    assert [row.document_id for row in store.report("unretrieved-documents", ended)] == ["a"]
    assert store.report("unretrieved-documents", Window("acme", until=minute(6))) == []


def test_a_document_has_its_gravest_signal(store: TrackerStore) -> None:
    names = ("bad", "fine", "stale", "bad and stale", "never")
    store.record_documents("acme", "docs", [(name, name.title()) for name in names], NOON)
    for number in range(5):
        store.record([searched(f"r{number}", hit("stale"), hit("bad and stale", 1), at=number)])
        after = 31 * 24 * 60 + number
        store.record([searched(f"s{number}", hit("bad", 1), hit("fine", 2), at=after)])
    for number in range(3):
        judge(store, f"r{number}", "bad and stale", "not_relevant")
        judge(store, f"s{number}", "bad", "relevant" if number == 0 else "not_relevant")
    end = minute(4) + MONTH + timedelta(minutes=1)
    assert store.report("quality-signals", Window("acme", until=end + timedelta(days=2))) == [
        QualitySignal("low_quality", "docs", "bad", "Bad", 5, minute(31 * 1440 + 4), 3, 2 / 3),
        QualitySignal("low_quality", "docs", "bad and stale", "Bad And Stale", 5, minute(4), 3, 1),
        QualitySignal("stale", "docs", "stale", "Stale", 5, minute(4), 0, None),
        QualitySignal("never_retrieved", "docs", "never", "Never", 0, None, 0, None),
    ]


def test_few_retrievals_few_judgements_or_a_good_half_are_no_low_quality(
    store: TrackerStore,
) -> None:
    names = ("rare", "hardly judged", "mostly good")
    store.record_documents("acme", "docs", [(name, None) for name in names], NOON)
    for number in range(5):
        rare = [hit("rare")] if number < 4 else []
        store.record([searched(f"r{number}", *rare, hit("hardly judged"), hit("mostly good"))])
    for number in range(4):
        judge(store, f"r{number}", "rare", "not_relevant")
        judge(store, f"r{number}", "mostly good", "relevant" if number else "not_relevant")
    for number in range(2):
        judge(store, f"r{number}", "hardly judged", "not_relevant")
    assert store.report("quality-signals", Window("acme", until=minute(1))) == []


def test_a_document_is_stale_from_30_days_on(store: TrackerStore) -> None:
    store.record_documents("acme", "docs", [("a", None)], NOON)
    store.record([searched("r1", hit("a"))])
    assert store.report("quality-signals", Window("acme", until=NOON + MONTH)) == []
    (row,) = store.report("quality-signals", Window("acme", until=minute(1) + MONTH))
    assert row.signal == "stale"


def test_impact_is_the_share_of_what_was_shown_and_whether_it_helped(store: TrackerStore) -> None:
    store.record(
        [
            searched("r1", hit("a", 1), hit("b", 2), hit("b", None, chunk=1), query="One"),
            searched("r2", hit("a", 1), hit("b", 2), query=" one "),
            searched("r3", hit("b", 4), hit("c", 2), query="two"),
        ]
    )
    judge(store, "r1", "b", "not_relevant")
    judge(store, "r2", "b", "highly_relevant")
    judge(store, "r3", "b", "partially_relevant")
    assert store.report("document-impact", ALL) == [
        DocumentImpact("docs", "a", 2.0, 2.0 / 3.75, 2, 2, 1, 0, 0, 0),
        DocumentImpact("docs", "b", 1.25, 1.25 / 3.75, 3, 0, 2, 3, 1, 1),
        DocumentImpact("docs", "c", 0.5, 0.5 / 3.75, 1, 0, 1, 0, 0, 0),
    ]
