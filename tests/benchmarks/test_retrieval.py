from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.retrieval import PEER, table_of_searches, table_of_sizes
from benchmarks.retrieval_cases import CASES, Exact, recall
from benchmarks.retrieval_ingest import ingest
from benchmarks.retrieval_search import search
from benchmarks.synthetic import Source
from deployments.stores import lance_indexes


def test_the_same_chunks_and_queries_are_made_every_time() -> None:
    first, again = (list(Source(1_500).passages()) for _ in range(2))

    assert [passage.number for passage in first] == list(range(1_500))
    assert [passage.text for passage in first] == [passage.text for passage in again]
    assert all(np.array_equal(a.vector, b.vector) for a, b in zip(first, again, strict=True))
    assert [text for text, _ in Source(1_500).queries(3)] == [
        text for text, _ in Source(1_500).queries(3)
    ]


def test_chunks_of_a_topic_are_near_and_others_are_not() -> None:
    source = Source(2_000)
    vectors = np.array([passage.vector for passage in source.passages()])
    cosines = np.sort([query @ vectors.T for _, query in source.queries(20)], axis=1)

    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert cosines[:, 1_000].mean() == pytest.approx(0.45, abs=0.03)
    assert cosines[:, -50].mean() == pytest.approx(0.70, abs=0.03)


def test_exact_neighbours_are_those_of_all_groups_that_pass() -> None:
    source = Source(400)
    passages = list(source.passages())
    exact = Exact.of(source)
    exact.see(passages[:250])
    exact.see(passages[250:])

    vectors = np.array([passage.vector for passage in passages])
    (of_one_year,) = [case for case in CASES if case.name == "1 in 20"]
    whole = np.argsort(-(exact.queries @ vectors.T), axis=1)
    assert exact.numbers["no filter"].tolist() == whole[:, :50].tolist()
    passing = [number for number in whole[0] if of_one_year.passes(passages[number])]
    assert exact.numbers["1 in 20"][0].tolist() == passing


def test_recall_is_the_share_of_the_nearest_that_is_found_as_early() -> None:
    assert recall([[1, 2, 9, 3]], [[1, 2, 3, 4]], depth=2) == 1.0
    assert recall([[1, 9, 2, 3]], [[1, 2, 3, 4]], depth=2) == 0.5
    assert recall([[5], [7]], [[5], [8]], depth=10) == 0.5


async def test_a_small_corpus_is_measured_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_indexes, "OLD_VERSIONS", lance_indexes.OLD_VERSIONS)
    written = await ingest(300, tmp_path)
    found = await search(300, tmp_path)

    assert len(json.loads((tmp_path / "exact.json").read_text())["no filter"][0]) == 50
    assert all(case["recall@10"] >= 0.95 for case in found["cases"].values())
    result = {"chunks": 300, "ingest": written, "search": found, PEER: None}
    assert list(table_of_searches(result).columns[0].cells)[:3] == ["dense", "bm25", "hybrid"]
    assert list(table_of_sizes([result]).columns[1].cells)[-2:] == ["-", "-"]
