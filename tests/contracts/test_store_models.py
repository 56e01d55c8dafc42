"""A corpus is of the models that its first writer had."""

from __future__ import annotations

import numpy as np
import pytest

from deployments.stores.protocol import LegQuery
from pipeline.errors import InvalidInput, Unavailable
from pipeline.legs import DENSE
from pipeline.vectors import Encoders
from tests.contracts.passages import DOCS, OpenStore, X, find_text, ids, passage

OLD, NEW = Encoders("bge@1"), Encoders("bge@2")


def near(model: str | None) -> LegQuery:
    return LegQuery(DENSE, 10, vector=np.array(X, np.float32), model=model)


@pytest.mark.parametrize("other", [NEW, Encoders(), Encoders("bge@1", "splade@1")])
async def test_a_store_of_other_encoders_may_not_write(
    open_store: OpenStore, other: Encoders
) -> None:
    await open_store(OLD).upsert(DOCS, [passage("a")])

    with pytest.raises(InvalidInput, match="cannot be compared") as refused:
        await open_store(other).upsert(DOCS, [passage("b")])

    assert refused.value.param == "corpus"
    await open_store(OLD).upsert(DOCS, [passage("c")])
    assert ids(await find_text(open_store(other), "word")) == ["a#0", "c#0"]


async def test_the_refusal_names_both_models(open_store: OpenStore) -> None:
    await open_store(OLD).upsert(DOCS, [])

    with pytest.raises(InvalidInput, match=r"dense vectors of bge@1, .* those of bge@2:"):
        await open_store(NEW).upsert(DOCS, [passage("a")])
    with pytest.raises(InvalidInput, match=r"dense vectors of bge@1, .* those of no model:"):
        await open_store(Encoders()).upsert(DOCS, [passage("a")])


async def test_a_query_of_another_model_is_refused_and_one_of_the_same_answered(
    open_store: OpenStore,
) -> None:
    await open_store(OLD).upsert(DOCS, [passage("a")])
    reader = open_store(NEW)

    with pytest.raises(Unavailable, match=r"dense vectors of bge@1, the query one of bge@2"):
        await reader.search(DOCS, near("bge@2"))
    assert ids(await reader.search(DOCS, near("bge@1"))) == ["a#0"]
    assert ids(await reader.search(DOCS, near(None))) == ["a#0"]


async def test_a_corpus_dropped_and_made_again_is_of_its_new_models(open_store: OpenStore) -> None:
    await open_store(OLD).upsert(DOCS, [passage("a")])
    await open_store(NEW).drop(DOCS)
    await open_store(NEW).upsert(DOCS, [passage("b")])

    assert ids(await open_store(OLD).search(DOCS, near("bge@2"))) == ["b#0"]
    with pytest.raises(Unavailable):
        await open_store(OLD).search(DOCS, near("bge@1"))
