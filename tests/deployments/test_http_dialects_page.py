"""What docs/dialects.md says of the routes is what they do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest
from pydantic import BaseModel

from deployments.api.dialects import RerankRequest
from deployments.api.nim import RankingRequest
from deployments.api.openai import EmbeddingRequest
from deployments.api.tei import TextsRequest
from deployments.api.vllm import ScoreRequest
from tests.deployments.dialects import RankingGateway, serving_defaults
from tests.docs.pages import ROOT, blocks_in, table

PAGE = (ROOT / "docs" / "dialects.md").read_text()
CURL = re.compile(r"curl localhost:8000(\S+) .*?-d '(.*?)'", re.DOTALL)
ROUTES = table(PAGE, "route", "clients of", "understood", "without effect")
REQUESTS: Mapping[str, type[BaseModel]] = {
    "POST /v1/rerank": RerankRequest,
    "POST /rerank with texts": TextsRequest,
    "POST /score, POST /v1/score": ScoreRequest,
    "POST /v1/ranking": RankingRequest,
    "POST /v1/embeddings": EmbeddingRequest,
}


def curls() -> Iterator[tuple[str, str]]:
    for block in blocks_in(PAGE, "sh"):
        yield from CURL.findall(block.text)


@pytest.mark.parametrize(("path", "body"), list(curls()))
async def test_a_line_of_curl_is_answered(path: str, body: str) -> None:
    gateway = RankingGateway({"Ada feeds them.": 5.0, "Rain is wet.": -5.0})
    async with serving_defaults(gateway) as client:
        headers = {"Content-Type": "application/json"}
        response = await client.post(path, content=body, headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize(("route", "request_model"), REQUESTS.items())
def test_the_table_names_every_field(route: str, request_model: type[BaseModel]) -> None:
    ((_, _, understood, without_effect),) = [row for row in ROUTES if row[0] == route]
    named = set(re.findall(r"\w+", understood + " " + without_effect))
    assert request_model.model_fields.keys() <= named
