"""Each wire format: the body that goes out, and how its service's own answer is read."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from deployments import provider_options
from deployments.provider_options import ProviderArgs
from deployments.providers.dialects import DIALECTS

TEXTS = ["one", "two"]


def args(dialect: Any, **more: Any) -> ProviderArgs:
    return ProviderArgs(base_url="http://x", dialect=dialect, model="m", **more)


def body(dialect: Any, **more: Any) -> dict[str, Any]:
    return DIALECTS[dialect].body(args(dialect, **more), "q", TEXTS)


def test_every_dialect_that_may_be_configured_is_there() -> None:
    assert set(DIALECTS) == set(get_args(provider_options.Dialect))


def test_cohere_is_asked_with_strings_for_all_scores() -> None:
    assert body("cohere") == {"model": "m", "query": "q", "documents": ["one", "two"], "top_n": 2}


def test_jina_is_asked_for_no_documents() -> None:
    assert body("jina") == {
        "model": "m",
        "query": "q",
        "documents": ["one", "two"],
        "top_n": 2,
        "return_documents": False,
    }


@pytest.mark.parametrize("dialect", ["standard", "ollama"])
def test_an_instruction_goes_where_it_is_understood(dialect: str) -> None:
    plain = {
        "model": "m",
        "query": "q",
        "documents": ["one", "two"],
        "top_n": 2,
        "return_documents": False,
    }
    assert body(dialect) == plain
    assert body(dialect, instruction="be strict") == {**plain, "instruction": "be strict"}


@pytest.mark.parametrize(("scale", "raw"), [(None, False), ("relevance", False), ("logit", True)])
def test_tei_is_asked_for_its_scale_and_to_cut_long_texts(scale: Any, raw: bool) -> None:
    assert body("tei", scale=scale) == {
        "query": "q",
        "texts": ["one", "two"],
        "truncate": True,
        "raw_scores": raw,
    }


def test_vllm_is_asked_to_cut_long_texts() -> None:
    plain = {
        "model": "m",
        "query": "q",
        "documents": ["one", "two"],
        "top_n": 2,
        "truncate_prompt_tokens": -1,
    }
    assert body("vllm") == plain
    assert body("vllm", scale="logit") == {**plain, "use_activation": False}


def test_nim_is_asked_with_passages() -> None:
    assert body("nim") == {
        "model": "m",
        "query": {"text": "q"},
        "passages": [{"text": "one"}, {"text": "two"}],
        "truncate": "END",
    }


def test_doubao_is_asked_with_the_query_beside_each_text() -> None:
    datas = [{"query": "q", "content": "one"}, {"query": "q", "content": "two"}]
    assert body("doubao", instruction="be strict") == {
        "datas": datas,
        "rerank_model": "m",
        "rerank_instruction": "be strict",
    }
    unnamed = ProviderArgs(base_url="http://x", dialect="doubao")
    assert DIALECTS["doubao"].body(unnamed, "q", TEXTS) == {"datas": datas}


@pytest.mark.parametrize("dialect", ["tei", "vllm", "nim", "standard"])
def test_a_service_with_one_model_needs_no_name_of_it(dialect: Any) -> None:
    unnamed = ProviderArgs(base_url="http://x", dialect=dialect)
    assert "model" not in DIALECTS[dialect].body(unnamed, "q", TEXTS)


COHERE = {
    "id": "07734bd2",
    "results": [{"index": 1, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.01}],
    "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
}
JINA = {
    "model": "jina-reranker-v2",
    "usage": {"total_tokens": 15},
    "results": [{"index": 1, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.01}],
}
VLLM = {
    "id": "rerank-1",
    "model": "m",
    "usage": {"total_tokens": 56},
    "results": [
        {"index": 1, "document": {"text": "two"}, "relevance_score": 0.98},
        {"index": 0, "document": {"text": "one"}, "relevance_score": 0.01},
    ],
}


@pytest.mark.parametrize(
    ("dialect", "answer", "ranking"),
    [
        ("cohere", COHERE, [(1, 0.98), (0, 0.01)]),
        ("jina", JINA, [(1, 0.98), (0, 0.01)]),
        ("vllm", VLLM, [(1, 0.98), (0, 0.01)]),
        ("ollama", JINA, [(1, 0.98), (0, 0.01)]),
        ("standard", JINA, [(1, 0.98), (0, 0.01)]),
        ("standard", {"results": [{"index": 1, "score": 0.9}]}, [(1, 0.9)]),
        ("tei", [{"index": 1, "score": 0.98}, {"index": 0, "score": 0.01}], [(1, 0.98), (0, 0.01)]),
        (
            "nim",
            {"rankings": [{"index": 1, "logit": 4.25}, {"index": 0, "logit": -7.5}]},
            [(1, 4.25), (0, -7.5)],
        ),
        (
            "doubao",
            {"code": 0, "message": "success", "request_id": "r", "data": {"scores": [0.01, 0.98]}},
            [(0, 0.01), (1, 0.98)],
        ),
        ("doubao", {"data": {"scores": [0.01, None]}}, [(0, 0.01), (1, None)]),
        ("doubao", {"data": [{"index": 1, "score": 0.98}]}, [(1, 0.98)]),
        ("cohere", {"results": []}, []),
    ],
)
def test_an_answer_is_read_as_it_was_given(
    dialect: str, answer: Any, ranking: list[tuple[object, object]]
) -> None:
    assert DIALECTS[dialect].read(answer) == ranking


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize(
    "answer",
    [
        None,
        3,
        "ok",
        {},
        {"error": {"message": "overloaded"}},
        {"results": None, "rankings": {}, "data": None, "choices": []},
        {"data": {"scores": "none"}, "choices": [{"message": {"content": None}}]},
    ],
)
def test_an_answer_of_another_shape_is_none(dialect: str, answer: Any) -> None:
    with pytest.raises(ValueError, match="the answer"):
        DIALECTS[dialect].read(answer)


def test_an_error_of_doubao_with_status_200_is_no_ranking() -> None:
    with pytest.raises(ValueError, match="the answer is an error"):
        DIALECTS["doubao"].read({"code": 1000030, "message": "failed", "data": {"scores": []}})


@pytest.mark.parametrize("dialect", ["cohere", "jina", "ollama", "llm"])
def test_a_service_of_many_models_needs_a_name(dialect: Any) -> None:
    with pytest.raises(ValueError, match=f"dialect {dialect} needs a model"):
        ProviderArgs(base_url="http://x", dialect=dialect)


@pytest.mark.parametrize("dialect", ["cohere", "jina", "tei", "vllm", "nim"])
def test_an_instruction_that_nobody_would_read_is_refused(dialect: Any) -> None:
    with pytest.raises(ValueError, match=f"dialect {dialect} takes no instruction"):
        args(dialect, instruction="be strict")


@pytest.mark.parametrize(("correct", "incorrect"), [(0.5, None), (None, 0.1), (0.0, 0.5)])
def test_thresholds_come_in_pairs_and_in_order(correct: Any, incorrect: Any) -> None:
    with pytest.raises(ValueError, match="threshold"):
        args("tei", correct_threshold=correct, incorrect_threshold=incorrect)
