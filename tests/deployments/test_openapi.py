"""The OpenAPI document says what the routes do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from deployments.api.examples import EXAMPLES, OLD, OTHER, SEARCH
from deployments.config import LimitsArgs
from deployments.ingress import create_api
from deployments.openapi import ERRORS, operations
from pipeline.errors import InvalidInput
from pipeline.filters import parse_filter
from tests.deployments.dialects import RankingGateway
from tests.deployments.gateway import LIMITS, RecordingGateway
from tests.deployments.keyed import KEYED, bearer, keyed_client
from tests.deployments.whole import WholeGateway
from tests.docs.example import read_corpus, run

DOCUMENT = create_api(RecordingGateway(), LimitsArgs(), KEYED).openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {one["operationId"]: (path, method, one) for path, method, one in operations(DOCUMENT)}
each_operation = pytest.mark.parametrize("name", OPERATIONS)


def closed(schema: Any) -> Any:
    """Return a schema that allows no field that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        whole.setdefault("additionalProperties", False)
    return whole


CLOSED = closed(SCHEMAS)


def check(instance: Any, schema: Any) -> None:
    """Raise for an instance that a schema of the document does not describe to the last field."""
    whole = {**closed(schema), "components": {"schemas": CLOSED}}
    Draft202012Validator(whole).validate(instance)


def body_of(operation: Any) -> tuple[str, Any]:
    ((kind, content),) = operation["requestBody"]["content"].items()
    return kind, content


def answer_of(operation: Any, status: int) -> Any:
    """Return what is said of an answer: its headers and content."""
    answer = operation["responses"][str(status)]
    if "$ref" in answer:
        answer = DOCUMENT["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return answer


def content_of(operation: Any, status: int = 200) -> Any:
    (content,) = answer_of(operation, status)["content"].values()
    return content


async def send(name: str, gateway: RecordingGateway, key: str = "boss") -> httpx.Response:
    """Send an operation's example."""
    path, method, operation = OPERATIONS[name]
    for parameter in operation["parameters"]:
        if parameter.get("in") == "path":
            path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
    body = EXAMPLES[name].body
    kind, content = (None, None) if body is None else (body_of(operation)[0], json.dumps(body))
    headers = bearer(key) | ({} if kind is None else {"Content-Type": kind})
    async with keyed_client(gateway, headers) as client:
        return await client.request(method.upper(), path, content=content)


def test_there_is_an_example_of_every_operation_and_of_nothing_else() -> None:
    assert EXAMPLES.keys() == OPERATIONS.keys()


@each_operation
def test_an_operation_says_what_it_does_and_who_may_ask(name: str) -> None:
    path, _, operation = OPERATIONS[name]
    assert operation["summary"]
    assert operation["description"]
    is_open = path in {"/healthz", "/readyz"}
    assert operation["security"] == ([] if is_open else [{"bearer": []}, {"key": []}])
    assert operation.get("x-role") in ({None} if is_open else {"read", "write", "admin"})


@each_operation
async def test_the_role_is_the_one_that_is_asked_for(name: str) -> None:
    needed = OPERATIONS[name][2].get("x-role", "read")
    for key, refused in (("reader", needed != "read"), ("writer", needed == "admin")):
        response = await send(name, WholeGateway(), key)
        assert (response.status_code == 403) is refused
        assert (f"role {needed}" in response.text) is refused


@each_operation
async def test_the_example_is_answered_as_described(name: str) -> None:
    response = await send(name, WholeGateway())
    assert response.status_code == 200
    operation = OPERATIONS[name][2]
    check(response.json(), content_of(operation)["schema"])
    assert answer_of(operation, 200)["headers"].keys() <= {
        header.title() for header in response.headers
    }


@each_operation
def test_examples_are_what_the_schemas_allow(name: str) -> None:
    operation = OPERATIONS[name][2]
    check(EXAMPLES[name].answer, content_of(operation)["schema"])
    if EXAMPLES[name].body is not None:
        check(EXAMPLES[name].body, body_of(operation)[1]["schema"])
    for status in operation["responses"]:
        content = content_of(operation, int(status))
        check(content["example"], content["schema"])


def failures() -> Iterator[tuple[str, int]]:
    """Yield what may fail behind the routes."""
    for name, (_, _, operation) in OPERATIONS.items():
        for status in ("404", "429", "503", "504"):
            if status in operation["responses"] and name != "readyz":
                yield name, int(status)


@pytest.mark.parametrize(("name", "status"), list(failures()))
async def test_a_failure_is_answered_as_described(name: str, status: int) -> None:
    gateway = WholeGateway()
    gateway.error = ERRORS[status]
    response = await send(name, gateway)
    assert response.status_code == status
    operation = OPERATIONS[name][2]
    check(response.json(), content_of(operation, status)["schema"])
    assert answer_of(operation, status)["headers"].keys() <= {
        header.title() for header in response.headers
    }


@pytest.mark.parametrize(
    "name", [name for name, (_, _, one) in OPERATIONS.items() if one["security"]]
)
async def test_a_request_without_a_key_is_refused_as_described(name: str) -> None:
    path, method, operation = OPERATIONS[name]
    async with keyed_client(RecordingGateway(), {}) as client:
        response = await client.request(method.upper(), path)
    assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    check(response.json(), content_of(operation, 401)["schema"])


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b" " * (LIMITS.body_bytes + 1), 413), (b"[]", 422)]
)
@pytest.mark.parametrize(
    "name", [name for name, (_, _, one) in OPERATIONS.items() if "400" in one["responses"]]
)
async def test_a_body_that_is_none_is_refused_as_described(
    name: str, body: bytes, status: int
) -> None:
    path, method, operation = OPERATIONS[name]
    app = create_api(RecordingGateway(), LIMITS, KEYED)
    headers = bearer("boss") | {"Content-Type": "application/json"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers
    ) as client:
        response = await client.request(method.upper(), path.format(corpus="c"), content=body)
    assert response.status_code == status
    check(response.json(), content_of(operation, status)["schema"])


async def test_a_starting_application_is_described() -> None:
    gateway = WholeGateway()
    gateway.ready = False
    response = await send("readyz", gateway)
    content = content_of(OPERATIONS["readyz"][2], 503)
    assert (response.status_code, response.json()) == (503, content["example"])
    check(response.json(), content["schema"])


async def test_the_example_of_a_search_is_what_a_search_answers() -> None:
    example = SEARCH.answer
    result = await run(SEARCH.body)
    assert [hit.id for hit in result.hits] == ["prices-2024"]
    gateway = WholeGateway()
    answered = (await send("search", gateway)).json()
    assert answered.keys() == example.keys()
    (hit,) = example["hits"]
    assert (hit["score"], hit["scores"]["fusion"], example["forward_passes"]) == (
        result.hits[0].stamp.relevance if result.hits[0].stamp else None,
        result.hits[0].fusion_score,
        result.tally.passes,
    )


@pytest.mark.parametrize("name", ["rerank", "rerank_v2", "rerank_texts", "rank_passages"])
async def test_the_example_of_a_ranking_is_what_it_answers(name: str) -> None:
    gateway = RankingGateway(read_corpus().logits)
    answered, example = (await send(name, gateway)).json(), EXAMPLES[name].answer
    assert order_of(answered) == order_of(example)


def order_of(answer: Any) -> list[tuple[int, float]]:
    """Return the places and scores of a ranking, whatever its dialect."""
    rows = answer if isinstance(answer, list) else answer.get("results") or answer["rankings"]
    scores = [row.get("relevance_score", row.get("logit", row.get("score"))) for row in rows]
    return [(row["index"], round(score, 6)) for row, score in zip(rows, scores, strict=True)]


def test_the_texts_of_the_examples_are_those_of_the_worked_example() -> None:
    assert {OLD, OTHER} <= read_corpus().logits.keys()


def test_our_own_requests_name_all_their_fields_and_those_of_dialects_allow_more() -> None:
    native = ["SearchRequest", "Corrective", "Boost", "PutDocuments", "DocumentIn", "PurgeRequest"]
    dialects = ["RerankRequest", "RerankDocument", "TextsRequest", "ScoreRequest", "RankingRequest"]
    assert all(SCHEMAS[name]["additionalProperties"] is False for name in native)
    assert all("additionalProperties" not in SCHEMAS[name] for name in dialects)


def requests() -> Iterator[str]:
    """Yield the schemas that bodies are made of."""
    waiting = [body_of(one)[1] for _, _, one in OPERATIONS.values() if "requestBody" in one]
    seen: set[str] = set()
    while waiting:
        found = json.dumps(waiting.pop())
        for name in SCHEMAS:
            if f'"#/components/schemas/{name}"' in found and name not in seen:
                seen.add(name)
                waiting.append(SCHEMAS[name])
    yield from sorted(seen)


@pytest.mark.parametrize("name", list(requests()))
def test_every_field_of_a_request_says_what_it_is(name: str) -> None:
    fields = SCHEMAS[name].get("properties", {})
    assert [field for field, said in fields.items() if not said.get("description")] == []


@pytest.mark.parametrize(
    "filter",
    [
        {"field": "year", "gte": 2020, "lt": 2026.5},
        {"field": "a.b", "in": ["x", 1, True]},
        {"not": {"any": [{"field": "a", "exists": False}, {"all": [{"field": "b", "ne": 0}]}]}},
        {},
        {"field": "year"},
        {"field": "", "eq": 1},
        {"field": "a..b", "eq": 1},
        {"field": "a" * 257, "eq": 1},
        {"field": "year", "eq": None},
        {"field": "year", "eq": [1]},
        {"field": "year", "eq": 2**63},
        {"field": "year", "gte": True},
        {"field": "year", "in": []},
        {"field": "year", "in": "2020"},
        {"field": "year", "exists": "yes"},
        {"field": "year", "like": "20"},
        {"all": []},
        {"all": [{}]},
        {"all": [{"field": "a", "eq": 1}], "any": [{"field": "a", "eq": 1}]},
        {"not": []},
        [],
    ],
)
def test_a_filter_is_described_as_it_is_read(filter: Any) -> None:
    for name, field in (("SearchRequest", "filter"), ("Boost", "when")):
        schema = {**SCHEMAS[name]["properties"][field], "components": {"schemas": SCHEMAS}}
        assert Draft202012Validator(schema).is_valid(filter) is is_filter(filter)


def is_filter(raw: Any) -> bool:
    try:
        parse_filter(raw)
    except InvalidInput:
        return False
    return True


def test_nothing_is_left_of_fastapis_own_errors() -> None:
    assert "ValidationError" not in json.dumps(DOCUMENT)


def test_a_parameter_is_never_null() -> None:
    found = [one for _, _, operation in OPERATIONS.values() for one in operation["parameters"]]
    assert len(found) > 40
    assert '"null"' not in json.dumps(found)


async def test_the_document_is_made_once_and_is_the_same_whatever_the_limits() -> None:
    app = create_api(RecordingGateway(), LIMITS, KEYED)
    assert app.openapi() is app.openapi()
    async with keyed_client(RecordingGateway(), {}) as client:
        response = await client.get("/openapi.json")
    assert response.json() == json.loads(json.dumps(DOCUMENT))


async def test_what_is_said_of_the_scorer_needs_one() -> None:
    gateway = WholeGateway()
    gateway.error = InvalidInput("scoring needs a scorer, and none is configured")
    response = await send("info", gateway)
    assert response.status_code == 422
    check(response.json(), content_of(OPERATIONS["info"][2], 422)["schema"])


def test_a_wrong_answer_would_be_found() -> None:
    schema = content_of(OPERATIONS["search"][2])["schema"]
    for wrong in ({**SEARCH.answer, "hits": None}, {**SEARCH.answer, "extra": 1}, {}):
        assert list(
            Draft202012Validator({**schema, "components": {"schemas": CLOSED}}).iter_errors(wrong)
        )
