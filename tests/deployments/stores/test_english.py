"""Words are those of LanceDB's English analyser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deployments.stores.english import (
    AVERAGE_LENGTH,
    STOP_WORDS,
    document_vector,
    query_vector,
    term_id,
    words,
)
from deployments.stores.lance import LanceStore
from deployments.stores.protocol import IndexedChunk, LegQuery
from pipeline.documents import Chunk, CorpusKey
from pipeline.legs import BM25

CORPUS = CorpusKey("tenant", "corpus")

TEXTS = [
    "The organizations were running, willing and DYING happily",
    "naïve Ærøskøbing straße ﬁne Łódź",
    "under_score x-y don't 3.14 a1b2 C++ e-mail's",
    "日本語 テスト, Привет мир",
    f"{'x' * 39} {'y' * 40} {'z' * 41}",
    "themselves because before very only does would cannot once",
]


def test_texts_become_stems_without_stop_words() -> None:
    assert words("The Foxes were running, willing and DYING happily") == [
        "fox",
        "run",
        "die",
        "happili",
    ]
    assert words("under_score don't 3.14") == ["score", "3", "14"]
    assert words("naïve straße") == ["naiv", "strasse"]
    assert words(f"{'x' * 39} {'y' * 40}") == ["x" * 39]


async def test_the_engine_finds_a_word_where_we_have_its_term(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path), None)
    chunks = [Chunk(str(n), str(n), 0, text) for n, text in enumerate(TEXTS)]
    await store.upsert(CORPUS, [IndexedChunk(chunk, None, "digest") for chunk in chunks])
    probes = [word for text in TEXTS for word in text.split()]
    probes += ["organization", "dies", "strasse", "naive", "lodz", "don", "14", "日本", "themself"]

    for probe in [*probes, *STOP_WORDS.split()]:
        hits = await store.search(CORPUS, LegQuery(BM25, 10, text=probe))
        wanted = set(words(probe))
        ours = {str(n) for n, text in enumerate(TEXTS) if wanted & set(words(text))}
        assert {hit.chunk.id for hit in hits} == ours, probe


def test_a_documents_weights_saturate_and_fall_with_its_length() -> None:
    vector = document_vector("fox fox dog")

    norm = 1.2 * (0.25 + 0.75 * 3 / AVERAGE_LENGTH)
    expected = {term_id("fox"): 2 * 2.2 / (2 + norm), term_id("dog"): 2.2 / (1 + norm)}
    assert dict(zip(vector.ids.tolist(), vector.weights.tolist(), strict=True)) == pytest.approx(
        expected, rel=1e-6
    )
    assert np.all(np.diff(vector.ids) > 0)
    shorter, longer = document_vector("fox"), document_vector("fox " + "dog " * 60)
    assert shorter.weights[0] > longer.weights[longer.ids == term_id("fox")][0]


def test_a_query_counts_its_words() -> None:
    vector = query_vector("Foxes and a fox, or dogs")
    assert dict(zip(vector.ids.tolist(), vector.weights.tolist(), strict=True)) == {
        term_id("fox"): 2.0,
        term_id("dog"): 1.0,
    }
    assert query_vector("the and?!").ids.tolist() == []
