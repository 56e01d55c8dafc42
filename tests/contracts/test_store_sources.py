"""Source rules act alike in every engine and on either leg."""

from __future__ import annotations

import pytest

from deployments.stores.protocol import Store
from pipeline.sources import SourceRules
from tests.contracts.passages import DOCS, X, find_near, find_text, ids, passage

SOURCES = [
    "wiki/a",
    "wiki/draft/b",
    "Wiki/c",
    None,
    "",
    "it's 100% \\ _x",
    "it's 100 \\ yx",
    "wiki*",
    "日本/😀",
    "日本語",
]


@pytest.mark.parametrize(
    ("rules", "passing"),
    [
        ([], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([SourceRules()], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([SourceRules(allow=("wiki/a", "", "nowhere"))], [0, 4]),
        ([SourceRules(allow=("wiki/*",))], [0, 1]),
        ([SourceRules(allow=("wiki*",))], [0, 1, 7]),
        ([SourceRules(allow=("wiki**",))], [7]),
        ([SourceRules(allow=("wiki/a", "wiki/draft/*", "日本/*"))], [0, 1, 8]),
        ([SourceRules(allow=("*",))], [0, 1, 2, 4, 5, 6, 7, 8, 9]),
        ([SourceRules(allow=())], []),
        ([SourceRules(block=("wiki/a",))], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([SourceRules(block=("wiki/*", "it*"))], [2, 3, 4, 7, 8, 9]),
        ([SourceRules(block=("*",))], [3]),
        ([SourceRules(allow=("wiki/*", "Wiki/*"), block=("wiki/draft/*",))], [0, 2]),
        ([SourceRules(allow=("wiki/a",), block=("*",))], []),
        ([SourceRules(allow=("wiki/*",)), SourceRules(allow=("*",), block=("wiki/a",))], [1]),
        ([SourceRules(allow=("wiki/a",)), SourceRules(allow=("Wiki/c",))], []),
        ([SourceRules(allow=("it's 100% \\ _x",))], [5]),
        ([SourceRules(allow=("it's 100%*",))], [5]),
        ([SourceRules(allow=("it's 100 \\ _*", "%*", "_*", "'*"))], []),
        ([SourceRules(allow=("' OR 1=1 --", "') OR ('' = '*"))], []),
        ([SourceRules(block=("日本/😀*",))], [0, 1, 2, 3, 4, 5, 6, 7, 9]),
        # Many prefixes of one length are told in another way than few.
        ([SourceRules(allow=("日本/*", "it'*", *(f"{n}☃!*" for n in range(9))))], [5, 6, 8]),
        (
            [SourceRules(block=("日本/*", "it'*", *(f"{n}☃!*" for n in range(9))))],
            [0, 1, 2, 3, 4, 7, 9],
        ),
    ],
)
async def test_source_rules_pass(
    store: Store, rules: list[SourceRules], passing: list[int]
) -> None:
    chunks = [passage(str(place), source=source) for place, source in enumerate(SOURCES)]
    await store.upsert(DOCS, chunks)
    expected = [f"{place}#0" for place in passing]

    assert ids(await find_text(store, "word", sources=rules)) == expected
    assert ids(await find_near(store, X, sources=rules)) == expected


async def test_source_rules_and_a_filter_must_both_pass(store: Store) -> None:
    chunks = [
        passage("a", source="wiki/a", metadata={"lang": "en"}),
        passage("b", source="wiki/b", metadata={"lang": "de"}),
        passage("c", source="faq", metadata={"lang": "en"}),
        passage("d", metadata={"lang": "en"}),
    ]
    await store.upsert(DOCS, chunks)
    either = {"any": [{"field": "lang", "eq": "en"}, {"field": "lang", "eq": "fr"}]}
    wiki, no_faq = [SourceRules(allow=("wiki/*",))], [SourceRules(block=("faq",))]

    assert ids(await find_text(store, "word", filter=either, sources=wiki)) == ["a#0"]
    assert ids(await find_near(store, X, filter=either, sources=wiki)) == ["a#0"]
    assert ids(await find_text(store, "word", filter=either, sources=no_faq)) == ["a#0", "d#0"]
    assert ids(await find_near(store, X, filter=either, sources=no_faq)) == ["a#0", "d#0"]


async def test_source_rules_act_before_the_limit(store: Store) -> None:
    best = [passage(f"best{n}", "word word", X, source="bad") for n in range(50)]
    rest = [passage(f"rest{n}", "word and more", [1, 1, 0], source="good") for n in "abcd"]
    await store.upsert(DOCS, best + rest)
    expected = ["resta#0", "restb#0", "restc#0"]

    for rules in SourceRules(allow=("good",)), SourceRules(block=("b*",)):
        assert ids(await find_text(store, "word", 3, sources=[rules])) == expected
        assert ids(await find_near(store, X, 3, sources=[rules])) == expected


@pytest.mark.parametrize("tail", ["", "z" * 4_000], ids=["short", "long"])
async def test_lists_of_a_thousand_entries_work(store: Store, tail: str) -> None:
    sources = [f"7{tail}/page", f"77{tail}", "other", None]
    await store.upsert(DOCS, [passage(str(n), source=source) for n, source in enumerate(sources)])
    one_length = tuple(f"{n}{tail}/*" for n in range(1_000))
    all_lengths = tuple("x" * n + "/*" for n in range(1_000))
    exact = tuple(f"{n}{tail}" for n in range(1_000))
    block = [SourceRules(block=one_length), SourceRules(block=all_lengths)]
    allow = [SourceRules((*one_length[:500], *exact[:500])), SourceRules((*one_length, *exact))]

    assert ids(await find_text(store, "word", sources=block)) == ["1#0", "2#0", "3#0"]
    assert ids(await find_near(store, X, sources=block)) == ["1#0", "2#0", "3#0"]
    assert ids(await find_text(store, "word", sources=allow)) == ["0#0", "1#0"]
    assert ids(await find_near(store, X, sources=allow)) == ["0#0", "1#0"]
