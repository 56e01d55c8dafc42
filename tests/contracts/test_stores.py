"""What every index engine must do alike; the exact engine is the oracle."""

from __future__ import annotations

import itertools

import pytest

from deployments.stores.protocol import CorpusSize, LegQuery, Store
from pipeline.documents import CorpusKey
from pipeline.errors import NotFound
from pipeline.legs import DENSE
from tests.contracts.passages import (
    DOCS,
    X,
    Y,
    assert_not_found,
    find_near,
    find_text,
    ids,
    passage,
)


async def test_a_chunk_comes_back_whole_from_either_leg(store: Store) -> None:
    written = passage(
        "guide", "Turn it off.\nWait.", Y, 3, "First aid", {"n": [1, {"a": None}]}, "https://x/y"
    )
    await store.upsert(DOCS, [written, passage("other", "nothing alike", X)])

    by_text = await find_text(store, "wait")
    by_vector = await find_near(store, Y, k=1)

    assert [hit.chunk for hit in by_text] == [written.chunk]
    assert [hit.chunk for hit in by_vector] == [written.chunk]


async def test_the_title_is_searched_with_the_text(store: Store) -> None:
    await store.upsert(DOCS, [passage("a", "plain", title="Zebra"), passage("b", "plain")])

    assert ids(await find_text(store, "zebra")) == ["a#0"]


async def test_dense_scores_are_cosine_similarities(store: Store) -> None:
    chunks = [passage("same", vector=[2, 0, 0]), passage("half", vector=[1, 1, 0])]
    chunks += [passage("across", vector=Y), passage("against", vector=[-3, 0, 0])]
    await store.upsert(DOCS, chunks)

    hits = await find_near(store, [5, 0, 0])

    assert ids(hits) == ["same#0", "half#0", "across#0", "against#0"]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.5**0.5, 0, -1], abs=1e-6)


async def test_more_and_rarer_words_score_higher(store: Store) -> None:
    texts = ["apple pear plum", "apple pear fig", "apple fig fig", "kiwi lime melon"]
    await store.upsert(DOCS, [passage(str(place), text) for place, text in enumerate(texts)])

    hits = await find_text(store, "apple pear plum")

    assert ids(hits) == ["0#0", "1#0", "2#0"]
    assert hits[0].score > hits[1].score > hits[2].score > 0


async def test_both_legs_name_a_chunk_alike(store: Store) -> None:
    texts = ["one apple", "two apple", "three apple"]
    vectors = [[1, 0.1, 0], [1, 0.2, 0], [1, 0.3, 0]]
    chunks = [passage("d", texts[n], vectors[n], n) for n in range(3)]
    await store.upsert(DOCS, chunks)

    assert set(ids(await find_text(store, "apple"))) == {"d#0", "d#1", "d#2"}
    assert set(ids(await find_near(store, X))) == {"d#0", "d#1", "d#2"}


async def test_k_larger_than_the_corpus_gives_all_there_is(store: Store) -> None:
    await store.upsert(DOCS, [passage("a"), passage("b")])

    assert ids(await find_text(store, "word", k=1_000)) == ["a#0", "b#0"]
    assert ids(await find_near(store, X, k=1_000)) == ["a#0", "b#0"]


async def test_equal_scores_are_cut_and_sorted_by_id_on_every_run(store: Store) -> None:
    names = [f"{place:02}" for place in range(40)]
    await store.upsert(DOCS, [passage(name) for name in reversed(names)])
    await store.upsert(DOCS, [passage("00"), passage("20")])

    for _ in range(20):
        assert ids(await find_text(store, "word", k=3)) == ["00#0", "01#0", "02#0"]
        assert ids(await find_near(store, X, k=3)) == ["00#0", "01#0", "02#0"]


async def test_equal_scores_are_sorted_by_id_in_whatever_order_they_were_written(
    store: Store,
) -> None:
    for place, order in enumerate(itertools.permutations("abc")):
        corpus = CorpusKey("acme", f"order {place}")
        for name in order:
            await store.upsert(corpus, [passage(name)])
        await store.optimise(corpus)

        assert ids(await find_text(store, "word", k=2, corpus=corpus)) == ["a#0", "b#0"]
        assert ids(await find_near(store, X, k=2, corpus=corpus)) == ["a#0", "b#0"]


@pytest.mark.parametrize("text", ["", "   ", "?!", "nowhere"])
async def test_a_text_without_a_known_word_finds_nothing(store: Store, text: str) -> None:
    await store.upsert(DOCS, [passage("a", "some words")])

    assert await find_text(store, text) == []


@pytest.mark.parametrize("text", ['word AND "', "+word -other", "(word*", "word' OR 1=1 --"])
async def test_a_query_has_words_and_no_syntax(store: Store, text: str) -> None:
    await store.upsert(DOCS, [passage("a"), passage("b", "unlike")])

    assert ids(await find_text(store, text)) == ["a#0"]


async def test_chunks_without_a_direction_are_not_in_the_dense_leg(store: Store) -> None:
    await store.upsert(DOCS, [passage("none", vector=None), passage("zero", vector=[0, 0, 0])])

    assert await find_near(store, X) == []
    await store.upsert(DOCS, [passage("x")])
    assert ids(await find_near(store, X)) == ["x#0"]
    assert await find_near(store, [0, 0, 0]) == []
    assert ids(await find_text(store, "word")) == ["none#0", "x#0", "zero#0"]


def test_a_dense_query_without_a_vector_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="needs a vector"):
        LegQuery(DENSE, 5)


async def test_any_text_is_stored_as_it_is(store: Store) -> None:
    texts = {
        "emoji": "naïve 😀 日本語 \u0627\u0644",
        "breaks": "\n\n a\r\nb\tc \0 \x7f\n",
        "quotes": 'it\'s "quoted" \\ -- ; DROP',
        "long": "lorem ipsum " * 8_500,
        "empty": "",
    }
    titles = [None, "T", "two\nlines", "it's", "Ünïcode"]
    chunks = [
        passage(name, text, title=title)
        for (name, text), title in zip(texts.items(), titles, strict=True)
    ]
    await store.upsert(DOCS, chunks)

    for chunk in chunks:
        assert await store.fetch(DOCS, chunk.chunk.document_id) == [chunk.chunk]
    assert ids(await find_text(store, "ipsum")) == ["long#0"]
    assert ids(await find_text(store, "ünïcode")) == ["empty#0"]


async def test_upsert_replaces_all_the_chunks_of_its_documents_and_no_others(store: Store) -> None:
    await store.upsert(DOCS, [passage("a", f"old {n}", X, n) for n in range(3)])
    await store.upsert(DOCS, [passage("b", "old b", X)])
    await store.upsert(DOCS, [passage("a", "new 0", Y, 0), passage("c", "new c", Y)])

    assert ids(await find_text(store, "old")) == ["b#0"]
    assert set(ids(await find_text(store, "new"))) == {"a#0", "c#0"}
    assert ids(await find_near(store, Y)) == ["a#0", "c#0", "b#0"]
    assert [chunk.text for chunk in await store.fetch(DOCS, "a")] == ["new 0"]
    assert await store.size(DOCS) == CorpusSize(documents=3, chunks=3)


async def test_an_id_given_twice_counts_once_at_its_last(store: Store) -> None:
    await store.upsert(DOCS, [passage("a", "first"), passage("a", "second")])

    assert [chunk.text for chunk in await store.fetch(DOCS, "a")] == ["second"]


async def test_nothing_to_write_creates_the_corpus_all_the_same(store: Store) -> None:
    await store.upsert(DOCS, [])

    assert await store.corpora("acme") == ["docs"]
    assert await store.size(DOCS) == CorpusSize(documents=0, chunks=0)
    assert await find_text(store, "word") == []
    assert await find_near(store, X) == []


async def test_fetch_gives_the_chunks_of_one_document_in_order(store: Store) -> None:
    chunks = [passage("it's", f"text {n}", place=n) for n in range(12)]
    await store.upsert(DOCS, [*reversed(chunks), passage("other")])

    assert await store.fetch(DOCS, "it's") == [each.chunk for each in chunks]
    assert await store.fetch(DOCS, "nobody") == []


async def test_digests_name_the_stored_documents_alone(store: Store) -> None:
    await store.upsert(DOCS, [passage("a", place=0), passage("a", place=1), passage("b'")])

    found = await store.digests(DOCS, ["a", "b'", "nobody"])

    assert found == {"a": "digest of a", "b'": "digest of b'"}
    assert await store.digests(DOCS, []) == {}


async def test_delete_counts_the_documents_that_were_there(store: Store) -> None:
    await store.upsert(DOCS, [passage("a", place=0), passage("a", place=1), passage("b")])

    assert await store.delete(DOCS, ["a", "nobody", "a"]) == 1
    assert await store.delete(DOCS, ["a"]) == 0
    assert await store.delete(DOCS, []) == 0
    assert ids(await find_text(store, "word")) == ["b#0"]
    assert ids(await find_near(store, X)) == ["b#0"]
    assert await store.size(DOCS) == CorpusSize(documents=1, chunks=1)


async def test_a_corpus_with_everything_deleted_is_empty_but_there(store: Store) -> None:
    await store.upsert(DOCS, [passage("a"), passage("b")])
    await store.delete(DOCS, ["a", "b"])

    assert await find_text(store, "word") == []
    assert await find_near(store, X) == []
    assert await store.corpora("acme") == ["docs"]
    await store.upsert(DOCS, [passage("a")])
    assert ids(await find_text(store, "word")) == ["a#0"]


# Corpora


async def test_corpora_of_tenants_stay_apart(store: Store) -> None:
    names = [("a_b", "c"), ("a", "b_c"), ("a", "b.c"), ("a.b", "c"), ("A", "b_c"), ("a", "B_C")]
    names += [
        ("my tenant", "my corpus"),
        ("ü", "日本"),
        ("..", "."),
        ("a/b", "../c"),
        ("a_5fb", "c"),
    ]
    for tenant, name in names:
        await store.upsert(CorpusKey(tenant, name), [passage(f"{tenant} {name}")])

    for tenant, name in names:
        hits = await find_text(store, "word", corpus=CorpusKey(tenant, name))
        assert ids(hits) == [f"{tenant} {name}#0"]
    assert await store.corpora("a") == ["B_C", "b.c", "b_c"]
    assert await store.corpora("ü") == ["日本"]
    assert await store.corpora("..") == ["."]
    assert await store.corpora("nobody") == []


async def test_documents_are_listed_by_id_each_once_with_its_title(store: Store) -> None:
    names = ["b", "a", "a/b.md", "é", "it's", "B", "😀", "\ue000"]
    for name in names:
        await store.upsert(DOCS, [passage(name, place=n, title=name.upper()) for n in range(3)])
    await store.upsert(DOCS, [passage("b", title="now another"), passage("c")])
    listed = {**{name: name.upper() for name in names}, "b": "now another", "c": None}

    assert await store.documents(DOCS, "", 100) == sorted(listed.items())
    assert await store.documents(DOCS, "", 2) == [("B", "B"), ("a", "A")]
    assert await store.documents(DOCS, "a", 3) == [
        ("a/b.md", "A/B.MD"),
        ("b", "now another"),
        ("c", None),
    ]
    assert await store.documents(DOCS, "it's", 9) == sorted(listed.items())[-3:]
    assert await store.documents(DOCS, "😀", 9) == []


async def test_a_dropped_corpus_is_not_found(store: Store) -> None:
    await store.upsert(DOCS, [passage("a")])
    await store.upsert(CorpusKey("acme", "kept"), [passage("a")])
    await store.drop(DOCS)

    assert await store.corpora("acme") == ["kept"]
    await assert_not_found(store, DOCS)
    await store.upsert(DOCS, [passage("b")])
    assert ids(await find_text(store, "word")) == ["b#0"]


async def test_a_corpus_that_never_was_is_not_found(store: Store) -> None:
    await assert_not_found(store, CorpusKey("acme", "never"))


async def test_optimising_changes_no_answer(store: Store) -> None:
    for number in range(6):
        await store.upsert(DOCS, [passage(f"d{number}", f"red word{number}", X)])
    await store.delete(DOCS, ["d0"])
    before = [hit.chunk for hit in await find_text(store, "red")]

    await store.optimise(DOCS)

    after = [hit.chunk for hit in await find_text(store, "red")]
    assert after == before
    assert len(after) == 5
    with pytest.raises(NotFound):
        await store.optimise(CorpusKey("acme", "nowhere"))
