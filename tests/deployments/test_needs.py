from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployments.needs import Parts, check_engine, check_needs, unmet
from deployments.options import ConfigError
from deployments.search_options import SearchArgs, SearchOptions

ALL = Parts(scorer=True, embedder=True, chat=True, web_search=True, sparse_model=True)
NONE = Parts(scorer=False, embedder=False, chat=False, web_search=False)


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({}, []),
        ({"corrective": {"enabled": True}}, [("corrective", "scorer")]),
        ({"corrective": {"fallback": "http"}}, [("corrective.fallback", "web_search")]),
        ({"corrective": {"fallback": "corpus:other"}}, []),
        ({"rerank": {"enabled": True}}, [("rerank", "scorer")]),
        ({"refine": {"enabled": True}}, [("refine", "scorer")]),
        ({"boost": [{"when": {"field": "a", "eq": 1}, "factor": 2.0}]}, []),
        ({"context": {"count": "scorer"}}, []),
        ({"legs": ["dense", "bm25"]}, [("legs", "embedder")]),
        ({"legs": ["bm25"]}, []),
        ({"legs": ["sparse", "bm25"]}, [("legs", "sparse_model")]),
        ({"expansion": {"enabled": True, "templates": ["about {query}"]}}, []),
        ({"expansion": {"enabled": True, "step_back": True}}, [("expansion", "chat")]),
        ({"expansion": {"enabled": True, "multi_query": 2}}, [("expansion", "chat")]),
        (
            {"expansion": {"enabled": True, "hyde": 1}},
            [("expansion", "chat"), ("expansion.hyde", "embedder")],
        ),
        ({"expansion": {"enabled": False, "hyde": 1, "step_back": True}}, []),
    ],
)
def test_each_option_names_the_part_that_it_needs(
    options: dict[str, Any], needs: list[tuple[str, str]]
) -> None:
    asked = SearchOptions.model_validate(options)
    assert list(unmet(asked, NONE)) == needs
    assert list(unmet(asked, ALL)) == []


def test_a_configuration_without_the_part_it_needs_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError) as refused:
        check_needs(SearchArgs.model_validate({"refine": {"enabled": True}}), NONE)
    assert str(refused.value) == "search.refine needs a scorer, and `scorer` is null"


def test_what_is_on_for_one_corpus_alone_is_checked_too() -> None:
    search = SearchArgs.model_validate({"corpora": {"news": {"rerank": {"enabled": True}}}})
    with pytest.raises(ConfigError, match=r"^search\.corpora\.news\.rerank needs a scorer"):
        check_needs(search, replace(ALL, scorer=False))
    check_needs(search, ALL)


def test_a_sparse_leg_is_refused_with_the_engines_that_have_one() -> None:
    search = SearchArgs.model_validate({"legs": ["sparse"]})
    with pytest.raises(ConfigError) as refused:
        check_needs(search, replace(ALL, sparse_model=False))
    assert str(refused.value) == (
        "search.legs needs a sparse_model, and `embedder.sparse_model` is null; "
        "index engines with a sparse leg: qdrant"
    )
    with pytest.raises(ConfigError) as refused:
        check_engine("lancedb", "splade-tiny-msmarco")
    assert str(refused.value) == (
        "embedder.sparse_model needs an index engine with a sparse leg (qdrant), "
        "and index.engine is lancedb"
    )
    check_engine("lancedb", None)
    check_engine("qdrant", "splade-tiny-msmarco")
