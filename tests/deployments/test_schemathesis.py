"""Every route, asked what the document allows and much that it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi import checks

from deployments.api.ndjson import MEDIA_TYPE
from deployments.config import LimitsArgs
from deployments.ingress import create_api
from tests.deployments.keyed import KEYED, bearer
from tests.deployments.whole import WholeGateway

# Shorter values stand in many a message by chance.
TELLING_CHARS = 8

CONFIG = SchemathesisConfig.from_dict(
    {
        # Parameters that no route knows, as any client or proxy adds them, are ignored.
        "generation": {"allow-extra-parameters": False},
        "checks": {
            "negative_data_rejection": {"expected-statuses": [400, 401, 404, 405, 413, 422]}
        },
    }
)
SCHEMA = schemathesis.openapi.from_asgi(
    "/openapi.json", create_api(WholeGateway(), LimitsArgs(), KEYED), config=CONFIG
)


@schemathesis.serializer(MEDIA_TYPE)
def write_line(_: schemathesis.SerializationContext, line: Any) -> bytes:
    return json.dumps(line).encode()


@schemathesis.deserializer(MEDIA_TYPE)
def read_line(_: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:
    return json.loads(response.content)


def no_echo(
    _: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """An error repeats no text of the request but its id."""
    if response.status_code < 400:
        return
    said = response.text.replace(response.headers["x-request-id"][0], "")
    sent = texts_in([case.body, case.query, case.path_parameters])
    telling = {text for text in sent if len(text) >= TELLING_CHARS} - OUR_WORDS
    assert not [text for text in telling if text in said]


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)


def choices_in(schema: Any) -> Iterator[str]:
    """Yield the words of which a field takes one; a message names them, whatever was sent."""
    if isinstance(schema, dict):
        yield from texts_in(schema.get("enum"))
        for one in schema.values():
            yield from choices_in(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from choices_in(one)


OUR_WORDS = frozenset(choices_in(SCHEMA.raw_schema))
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.allow_header_conformance,
    no_echo,
]


@SCHEMA.parametrize()
@settings(
    max_examples=15,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_a_route_answers_as_it_is_described(case: schemathesis.Case[Any]) -> None:
    # A line that is wrong is refused in the answer, which is 200.
    is_bulk = case.media_type == MEDIA_TYPE
    refusing = [] if is_bulk else [checks.negative_data_rejection]
    case.call_and_validate(headers=bearer("boss"), checks=[*CHECKS, *refusing])
