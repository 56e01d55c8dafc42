"""docs/api.md shows every route, with a request that the route answers."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from typing import Any

import pytest

from deployments.api.examples import EXAMPLES
from deployments.config import AuthArgs, LimitsArgs
from deployments.ingress import create_api
from deployments.openapi import operations
from tests.deployments.gateway import serving
from tests.deployments.whole import WholeGateway
from tests.docs.pages import ROOT, blocks_in

PAGE = (ROOT / "docs" / "api.md").read_text()
SERVER = "localhost:8000"
CURLS = [shlex.split(block.text) for block in blocks_in(PAGE, "sh")]
OPERATIONS = list(operations(create_api(WholeGateway(), LimitsArgs(), AuthArgs()).openapi()))


def asked(words: list[str]) -> tuple[str, str, dict[str, str], str | None]:
    """Return method, path, headers and body of a line of curl."""
    (url,) = [word for word in words if word.startswith(SERVER)]
    given = {flag: value for flag, value in pairwise(words) if flag[0] == "-"}
    method = given.get("-X", "POST" if "-d" in given else "GET")
    headers = dict([given["-H"].split(": ")]) if "-H" in given else {}
    return method, url.removeprefix(SERVER), headers, given.get("-d")


@pytest.mark.parametrize("words", CURLS, ids=lambda words: " ".join(words)[:60])
async def test_a_line_of_curl_is_answered(words: list[str]) -> None:
    method, path, headers, body = asked(words)
    async with serving(WholeGateway()) as client:
        response = await client.request(method, path, headers=headers, content=body)
    assert response.status_code == 200


def test_every_route_is_there_with_its_example() -> None:
    shown = [json.loads(block.text) for block in blocks_in(PAGE, "json")]
    assert shown == [EXAMPLES[one["operationId"]].answer for _, _, one in OPERATIONS]
    headings = [line for line in PAGE.splitlines() if line.startswith("### ")]
    assert headings == [f"### `{method.upper()} {path}`" for path, method, _ in OPERATIONS]
    bodies: list[Any] = [
        None if (body := asked(one)[3]) is None else json.loads(body) for one in CURLS
    ]
    assert bodies == [EXAMPLES[one["operationId"]].body for _, _, one in OPERATIONS]
