"""What holds for every report: tenants, corpora, windows, pages, time, and counting by hand."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import asdict, fields
from itertools import combinations, count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import DeadlineExceeded
from tests.tracker.searches import hit, judge, searched
from tests.tracker.stores import minute
from tracker.database import Database
from tracker.records import OUTCOMES, HitRecord, RetrievalRecord, Window
from tracker.report_rows import STATED
from tracker.reports import STATEMENTS, time_limit
from tracker.store import TrackerStore

TENANTS = count()
NAMES = sorted(STATED)
DOCUMENTS = "abcde"


def fill(store: TrackerStore, tenant: str, corpus: str = "docs", at: float = 0) -> None:
    """Record searches and judgements of which each report has something to tell."""

    def name(number: int) -> str:
        return f"{tenant}-{corpus}-{at}-{number}"

    documents = [(f"{document}", None) for document in (*DOCUMENTS, "x", "y")]
    store.record_documents(tenant, corpus, documents, minute(at - 100_000))
    hits = [
        *(
            hit(document, place, 0.09 * place, grade="ambiguous")
            for place, document in enumerate(DOCUMENTS, start=1)
        ),
        hit("a", None, 0.2, chunk=1, grade="incorrect"),
    ]
    store.record(
        [
            searched(
                name(number),
                *(hits if number % 4 else []),
                query=f"query {number % 3}",
                at=at + number,
                tenant=tenant,
                corpus=corpus,
                model=f"m@{number % 2}",
                timings_ms={"retrieve": 1.0 + number, "rerank": 2.0, "total": 9.0},
            )
            for number in range(12)
        ]
    )
    for number, outcome in zip((1, 2, 3, 5), OUTCOMES, strict=True):
        for document in "ab":
            judge(store, name(number), document, outcome, tenant=tenant, at=at + 1000)


def test_there_is_one_statement_a_report() -> None:
    found = {file.stem for file in STATEMENTS.glob("*.sql")}
    assert found == {*STATED, "windowed"}


@pytest.mark.parametrize("name", NAMES)
def test_a_report_has_rows_and_an_empty_window_none(store: TrackerStore, name: str) -> None:
    fill(store, "acme")
    assert store.report(name, Window("acme"))
    before = Window("acme", until=minute(-200_000))
    assert store.report(name, before) == []
    assert store.report(name, Window("acme", "no such corpus")) == []
    assert store.report(name, Window("nobody")) == []


@pytest.mark.parametrize("name", NAMES)
def test_tenants_are_apart(store: TrackerStore, name: str) -> None:
    fill(store, "acme")
    alone = store.report(name, Window("acme", until=minute(5000)))
    fill(store, "a")
    fill(store, "acme2")
    assert store.report(name, Window("acme", until=minute(5000))) == alone
    assert len(store.report(name, Window("a", until=minute(5000)))) == len(alone)


@pytest.mark.parametrize("name", NAMES)
def test_corpora_and_times_outside_the_window_do_not_count(store: TrackerStore, name: str) -> None:
    fill(store, "acme")
    window = Window("acme", "docs", since=minute(0), until=minute(12))
    alone = store.report(name, window)
    fill(store, "acme", corpus="wiki")
    fill(store, "acme", at=-12)
    store.record_documents("acme", "docs", [(d, None) for d in (*DOCUMENTS, "x", "y")], minute(-1))
    fill_later(store)
    assert comparable(store.report(name, window)) == comparable(alone)


def fill_later(store: TrackerStore) -> None:
    hits = [hit(document, 1, 0.9) for document in (*DOCUMENTS, "x")]
    store.record([searched("later", *hits, at=12, query="query 0", timings_ms={"later": 1.0})])
    judge(store, "later", "a", "relevant", at=13)


def comparable(rows: list[Any]) -> list[dict[str, Any]]:
    """The rows without when a document was written, which is told as it is now."""
    return [{k: v for k, v in asdict(row).items() if k != "updated_at"} for row in rows]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 3])
def test_pages_give_all_rows_once(store: TrackerStore, name: str, size: int) -> None:
    fill(store, "acme")
    fill(store, "acme", corpus="wiki", at=3 * 24 * 60)
    rows = store.report(name, Window("acme"), limit=1000)
    assert len(rows) > 1
    offsets = range(0, len(rows) + size, size)
    pages = [store.report(name, Window("acme"), size, offset) for offset in offsets]
    assert [row for page in pages for row in page] == rows


def test_a_report_that_takes_too_long_is_broken_off_and_the_next_is_not(tmp_path: Path) -> None:
    database = Database(tmp_path / "file", memory_limit="64MB", threads=1)
    endless = "SELECT count(*) FROM range(1_000_000_000) a, range(1_000_000_000) b"
    for seconds in (0.0, 0.05):
        with (
            pytest.raises(DeadlineExceeded),
            database.session() as cursor,
            time_limit(cursor, seconds),
        ):
            cursor.execute(endless).fetchall()
    with database.session() as cursor, time_limit(cursor, 60):
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    database.close()


def test_a_write_does_not_wait_for_a_report_and_a_report_sees_one_state(tmp_path: Path) -> None:
    database = Database(tmp_path / "file", memory_limit="64MB", threads=1)
    store = TrackerStore(database)
    fill(store, "acme")
    with database.session() as cursor:
        statement = "SELECT retrieval_id FROM retrievals, range(100_000)"
        reading = cursor.execute(statement)
        seen = {*reading.fetchone()}  # type: ignore[misc]
        fill(store, "new")
        while row := reading.fetchone():
            seen.add(row[0])
    assert {one.split("-")[0] for one in seen} == {"acme"}
    assert store.report("query-frequency", Window("new"))
    store.close()


hits = st.lists(
    st.builds(
        lambda document, rank, relevance, origin: hit(document, rank, relevance, origin=origin),
        st.sampled_from(DOCUMENTS),
        st.none() | st.integers(1, 5),
        st.none() | st.sampled_from([0.0, 0.25, 0.75]),
        st.sampled_from([None, None, None, "http"]),
    ),
    max_size=6,
)
searches = st.lists(
    st.tuples(st.sampled_from(["q", " Q", "r", "s", "t"]), st.sampled_from(["c", "d"]), hits),
    max_size=12,
)
FILLED = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def store_all(
    store: TrackerStore, drawn: list[tuple[str, str, list[HitRecord]]]
) -> tuple[Window, list[RetrievalRecord]]:
    """Record the searches as those of a tenant who has no others."""
    tenant = f"t{next(TENANTS)}"
    records = [
        searched(f"{tenant}-{n}", *hits, query=query, corpus=corpus, at=n, tenant=tenant)
        for n, (query, corpus, hits) in enumerate(drawn)
    ]
    store.record(records)
    return Window(tenant), records


@given(drawn=searches, size=st.integers(1, 4))
@settings(FILLED, max_examples=10)
def test_whatever_is_stored_pages_give_all_rows_once_and_no_value_is_no_number(
    store: TrackerStore, drawn: list[tuple[str, str, list[HitRecord]]], size: int
) -> None:
    window, _ = store_all(store, drawn)
    for name in NAMES:
        rows = store.report(name, window, 1000)
        offsets = range(0, len(rows) + size, size)
        pages = [store.report(name, window, size, offset) for offset in offsets]
        assert [row for page in pages for row in page] == rows
        numbers = [
            value
            for row in rows
            for field in fields(row)
            if isinstance(value := getattr(row, field.name), float)
        ]
        assert all(map(math.isfinite, numbers))


@given(drawn=searches)
@FILLED
def test_counts_are_those_that_one_would_make_by_hand(
    store: TrackerStore, drawn: list[tuple[str, str, list[HitRecord]]]
) -> None:
    window, records = store_all(store, drawn)
    chunks: Counter[tuple[str, str]] = Counter()
    retrievals: Counter[tuple[str, str]] = Counter()
    empty: Counter[tuple[str, str]] = Counter()
    asked: Counter[tuple[str, str]] = Counter()
    for record in records:
        own = [(record.corpus, one.document_id) for one in record.hits if one.origin is None]
        chunks.update(own)
        retrievals.update(set(own))
        query = (record.corpus, record.query.strip().lower())
        asked[query] += 1
        empty[query] += not any(one.returned for one in record.hits)
    stats = store.report("document-stats", window)
    assert {(r.corpus, r.document_id): r.chunks_retrieved for r in stats} == chunks
    assert {(r.corpus, r.document_id): r.retrievals for r in stats} == retrievals
    frequent = store.report("query-frequency", window)
    assert {(r.corpus, r.query): r.searches for r in frequent} == asked
    assert sum(r.share for r in frequent) == pytest.approx(1.0 if records else 0.0)
    zero = store.report("zero-hit-queries", window)
    assert {(r.corpus, r.query): r.empty for r in zero} == {k: v for k, v in empty.items() if v}


@given(drawn=searches)
@FILLED
def test_clusters_are_the_components_of_the_queries_that_are_alike(
    store: TrackerStore, drawn: list[tuple[str, str, list[HitRecord]]]
) -> None:
    window, records = store_all(store, drawn)
    finds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        query = (record.corpus, record.query.strip().lower())
        finds[query] |= {o.document_id for o in record.hits if o.returned and o.origin is None}
    component = {query: {query} for query in finds}
    for one, other in combinations(finds, 2):
        union = finds[one] | finds[other]
        alike = union and len(finds[one] & finds[other]) / len(union) >= 0.5
        if alike and one[0] == other[0]:
            joined = component[one] | component[other]
            component.update(dict.fromkeys(joined, joined))
    expected = {frozenset(one) for one in component.values() if len(one) > 1}
    clusters = store.report("query-clusters", window)
    assert {frozenset((c.corpus, q) for q in c.queries) for c in clusters} == expected
    for cluster in clusters:
        shared = set.intersection(*(finds[cluster.corpus, query] for query in cluster.queries))
        assert cluster.shared_documents == sorted(shared)
