"""The wire formats of remote rerankers, one row each: how they are asked, how they answer.

Texts go out as strings wherever the service takes strings, and a score is asked for every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.provider_options import ProviderArgs
from deployments.providers.chat import COMPLETIONS
from deployments.providers.judges import MAX_CANDIDATES, judge_body, read_verdict
from deployments.providers.rankings import Ranking, Scale, member, read_entries

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A wire format: the service's own path, how many texts it takes in one call, its scale.

    `body` makes a request of (options, query, texts). `read` returns (index, score) as they were
    given; an index is a position in those texts. It raises ValueError for another shape.
    """

    path: str
    max_documents: int
    scale: Scale
    body: Callable[[ProviderArgs, str, Sequence[str]], Body]
    read: Callable[[Any], Ranking]


def scale_of(args: ProviderArgs) -> Scale:
    return args.scale or DIALECTS[args.dialect].scale


def cohere_body(args: ProviderArgs, query: str, texts: Sequence[str]) -> Body:
    asked = {"query": query, "documents": list(texts), "top_n": len(texts)}
    return {**model_of(args), **asked}


def jina_body(args: ProviderArgs, query: str, texts: Sequence[str]) -> Body:
    return {**cohere_body(args, query, texts), "return_documents": False}


def standard_body(args: ProviderArgs, query: str, texts: Sequence[str]) -> Body:
    body = jina_body(args, query, texts)
    return body if args.instruction is None else {**body, "instruction": args.instruction}


def tei_body(args: ProviderArgs, query: str, texts: Sequence[str]) -> Body:
    """Ask to cut what is too long: one such text would else fail all texts of the call."""
    raw = scale_of(args) == "logit"
    return {"query": query, "texts": list(texts), "truncate": True, "raw_scores": raw}


def vllm_body(args: ProviderArgs, query: str, texts: Sequence[str]) -> Body:
    """-1 cuts a text to the model's window: one too long would else fail all of the call."""
    body = {**cohere_body(args, query, texts), "truncate_prompt_tokens": -1}
    return {**body, "use_activation": False} if scale_of(args) == "logit" else body


def nim_body(args: ProviderArgs, query: str, texts: Sequence[str]) -> Body:
    passages = [{"text": text} for text in texts]
    asked = {"query": {"text": query}, "passages": passages, "truncate": "END"}
    return {**model_of(args), **asked}


def doubao_body(args: ProviderArgs, query: str, texts: Sequence[str]) -> Body:
    body: Body = {"datas": [{"query": query, "content": text} for text in texts]}
    if args.model is not None:
        body["rerank_model"] = args.model
    if args.instruction is not None:
        body["rerank_instruction"] = args.instruction
    return body


def model_of(args: ProviderArgs) -> Body:
    return {} if args.model is None else {"model": args.model}


def read_results(answer: Any) -> Ranking:
    return read_entries(member(answer, "results"), "relevance_score")


def read_standard(answer: Any) -> Ranking:
    return read_entries(member(answer, "results"), "relevance_score", "score")


def read_tei(answer: Any) -> Ranking:
    return read_entries(answer, "score")


def read_nim(answer: Any) -> Ranking:
    return read_entries(member(answer, "rankings"), "logit")


def read_doubao(answer: Any) -> Ranking:
    """Read `data.scores`, in the order of the texts, or `data` as a list of results.

    An error may come with HTTP status 200; its `code` is not 0 then.
    """
    data = member(answer, "data")
    if answer.get("code", 0) != 0:
        raise ValueError("the answer is an error")
    if isinstance(data, list):
        return read_entries(data, "score")
    scores = member(data, "scores")
    if not isinstance(scores, list):
        raise ValueError("the answer has no list of scores")
    return list(enumerate(scores))


# Limits on texts are the services' own where they publish one, and elsewhere small enough that
# a call takes a second or so.
DIALECTS: Mapping[str, Dialect] = {
    "cohere": Dialect("/v2/rerank", 1000, "relevance", cohere_body, read_results),
    "jina": Dialect("/v1/rerank", 500, "relevance", jina_body, read_results),
    "tei": Dialect("/rerank", 32, "relevance", tei_body, read_tei),
    "vllm": Dialect("/v1/rerank", 100, "relevance", vllm_body, read_results),
    "nim": Dialect("/v1/ranking", 512, "logit", nim_body, read_nim),
    "doubao": Dialect("/api/knowledge/service/rerank", 50, "relevance", doubao_body, read_doubao),
    "ollama": Dialect("/api/rerank", 100, "relevance", standard_body, read_standard),
    "standard": Dialect("/v1/rerank", 100, "relevance", standard_body, read_standard),
    "llm": Dialect(COMPLETIONS, MAX_CANDIDATES, "relevance", judge_body, read_verdict),
}
