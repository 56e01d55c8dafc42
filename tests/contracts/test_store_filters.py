"""Filters act alike in every engine and on either leg."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.stores.protocol import Store
from pipeline.stamps import CROSS_ENCODER_SCORE, GRADE
from tests.contracts.passages import DOCS, X, find_near, find_text, ids, passage

FILTERED: list[dict[str, Any]] = [
    {"year": 2020, "lang": "en", "tags": ["a", "b"], "author": {"name": "Ann", "age": 40}},
    {"year": 2021.5, "lang": "de", "tags": ["b", 7, [8]], "draft": True},
    {"year": "2022", "lang": "en", "tags": "a", "author": {"name": None}},
    {"year": [2020, 2023], "lang": None, "tags": [], "draft": False, "author": "Ann"},
    {},
]


@pytest.mark.parametrize(
    ("filter", "passing"),
    [
        ({"field": "year", "eq": 2020}, [0, 3]),
        ({"field": "year", "eq": "2022"}, [2]),
        ({"field": "year", "eq": 2022}, []),
        ({"field": "year", "ne": 2020}, [1]),
        ({"field": "year", "in": [2021.5, "2022"]}, [1, 2]),
        ({"field": "year", "gte": 2020, "lt": 2021.5}, [0]),
        ({"field": "year", "gt": 2020}, [1]),
        ({"field": "year", "lte": "2022"}, [2]),
        ({"field": "year", "exists": True}, [0, 1, 2, 3]),
        ({"field": "year", "exists": False}, [4]),
        ({"field": "lang", "exists": True}, [0, 1, 2]),
        ({"field": "lang", "ne": "en"}, [1]),
        ({"not": {"field": "lang", "eq": "en"}}, [1, 3, 4]),
        ({"not": {"field": "year", "gt": 2020}}, [0, 2, 3, 4]),
        ({"field": "tags", "eq": "a"}, [0, 2]),
        ({"field": "tags", "in": [7, "a"]}, [0, 1, 2]),
        ({"field": "tags", "eq": 8}, []),
        ({"field": "tags", "gt": ""}, [2]),
        ({"field": "tags", "exists": True}, [0, 1, 2, 3]),
        ({"field": "draft", "eq": True}, [1]),
        ({"field": "draft", "ne": True}, [3]),
        ({"field": "draft", "eq": 1}, []),
        ({"field": "author.name", "eq": "Ann"}, [0]),
        ({"field": "author.name", "exists": True}, [0]),
        ({"field": "author", "exists": True}, [0, 2, 3]),
        ({"field": "author.age", "lt": 40.5}, [0]),
        ({"field": "author.name.first", "exists": False}, [0, 1, 2, 3, 4]),
        ({"all": [{"field": "lang", "eq": "en"}, {"field": "tags", "eq": "b"}]}, [0]),
        ({"any": [{"field": "draft", "eq": False}, {"field": "year", "lt": 2021}]}, [0, 3]),
        ({"not": {"any": [{"field": "lang", "eq": "en"}, {"field": "year", "gt": 0}]}}, [3, 4]),
    ],
)
async def test_a_filter_passes(store: Store, filter: object, passing: list[int]) -> None:
    chunks = [passage(str(place), metadata=each) for place, each in enumerate(FILTERED)]
    await store.upsert(DOCS, chunks)
    expected = [f"{place}#0" for place in passing]

    assert ids(await find_text(store, "word", filter=filter)) == expected
    assert ids(await find_near(store, X, filter=filter)) == expected


async def test_a_filter_acts_before_the_limit(store: Store) -> None:
    best = [passage(f"best{n}", "word word", X, metadata={"keep": False}) for n in range(50)]
    rest = [
        passage(f"rest{n}", "word and more", [1, 1, 0], metadata={"keep": True}) for n in "abcd"
    ]
    await store.upsert(DOCS, best + rest)
    keep = {"field": "keep", "eq": True}

    assert ids(await find_text(store, "word", 3, keep)) == ["resta#0", "restb#0", "restc#0"]
    assert ids(await find_near(store, X, 3, keep)) == ["resta#0", "restb#0", "restc#0"]


async def test_reserved_keys_never_come_out_nor_can_they_be_filtered_on(store: Store) -> None:
    planted = {CROSS_ENCODER_SCORE: {"logit": 9.0}, GRADE: "correct", "own": {GRADE: "mine"}}
    await store.upsert(DOCS, [passage("a", metadata=planted)])
    filter = {"field": GRADE, "exists": True}

    assert (await find_text(store, "word"))[0].chunk.metadata == {"own": {GRADE: "mine"}}
    assert (await find_near(store, X))[0].chunk.metadata == {"own": {GRADE: "mine"}}
    assert (await store.fetch(DOCS, "a"))[0].metadata == {"own": {GRADE: "mine"}}
    assert await find_text(store, "word", filter=filter) == []
