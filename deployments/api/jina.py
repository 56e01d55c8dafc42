"""Jina's rerank answer, as a superset that clients of Cohere v1 and of vLLM read too."""

from __future__ import annotations

import uuid
from typing import Any

from deployments.api import native
from deployments.api.dialects import RerankRequest, result, search_units, sentence, usage
from deployments.ranking import RankedText, RerankAnswer
from pipeline.errors import OnepassError


def answer(request: RerankRequest, ranking: RerankAnswer) -> dict[str, Any]:
    """`results` by score, `index` the place in the input; `document` only on request."""
    return {
        "id": uuid.uuid4().hex,
        "model": ranking.model,
        "usage": usage(ranking),
        "results": [wide_result(request, one) for one in ranking.ranked[: request.top_n]],
        "meta": {
            "api_version": {"version": "1"},
            "billed_units": {"search_units": search_units(len(request.documents))},
            "forward_passes": ranking.tally.passes,
            "cached_scores": ranking.tally.cached,
            "shared_scores": ranking.tally.shared,
            "unscored": list(ranking.unscored),
        },
    }


def wide_result(request: RerankRequest, ranked: RankedText) -> dict[str, Any]:
    seen = {"logit": ranked.logit, "truncated": ranked.truncated, "tokens": ranked.tokens}
    return result(request, ranked) | seen


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    """An error as clients of Jina (`detail`), Cohere (`message`) and vLLM (`error`) read it."""
    said = sentence(error)
    return {**native.error(error, request_id), "message": said, "detail": said}
