"""The OpenAPI document: what FastAPI reads off the routes, and what it cannot know of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from deployments.api import cohere, jina, native, nim, openai, tei
from deployments.api.examples import EXAMPLES, PARAMETERS
from deployments.api.filters import describe_filters
from deployments.auth import OPEN_PATHS
from deployments.config import Role
from deployments.errors import SHAPES, Shape, headers_of
from deployments.routes.dependencies import ADMIN, WRITER
from pipeline.errors import (
    DeadlineExceeded,
    Forbidden,
    InvalidInput,
    MalformedRequest,
    NotFound,
    OnepassError,
    Overloaded,
    PayloadTooLarge,
    Unauthorized,
    Unavailable,
)

Json = dict[str, Any]

ABOUT = """Retrieve, correct, rerank: one cross-encoder pass per (query, text) pair.

Where API keys are configured, each request needs one, and `x-role` is the role it must have: write
may do what read may, admin everything. `X-Request-Id` is taken from the request or made, and comes
with every answer, also with an error. Numbers below `limits.` are the configuration's."""

# The description of each shape of an error.
BODIES: Mapping[Shape, type[BaseModel]] = {
    native.error: native.NativeError,
    jina.error: jina.JinaError,
    cohere.error: cohere.CohereError,
    tei.error: tei.TeiError,
    openai.error: openai.OpenAIError,
    nim.error: nim.NimError,
}
# One of each, to be shown.
ERRORS: Mapping[int, OnepassError] = {
    error.status: error
    for error in (
        MalformedRequest("the body is not valid JSON", "body"),
        Unauthorized("an API key is needed: Authorization: Bearer KEY, or X-API-Key: KEY"),
        Forbidden("this needs an API key with the role write"),
        NotFound("there is no such corpus", "corpus"),
        PayloadTooLarge("the body exceeds 16777216 bytes", "body"),
        InvalidInput("Field required", "query"),
        Overloaded("the scorer's queue is full: more than 25000 tokens are ahead", None, 2),
        Unavailable("Retrieval failed"),
        DeadlineExceeded("not every document was scored in time"),
    )
}
REASONS: Mapping[int, str] = {
    400: "The body is no JSON.",
    401: "There is no key, or an unknown one.",
    403: "The key's role does not suffice.",
    404: "What was asked for is not there, or is another tenant's.",
    413: "A size exceeds a limit, which the message names.",
    422: "The request is wrong; the message names the field and what it must be.",
    429: "Too much is waiting. Come back after `Retry-After` seconds.",
    503: "A part that is needed is down.",
    504: "The request's time is up.",
}
# Operations that need what they are asked for to be there.
LOOKING_UP = frozenset(
    {
        "search",
        "feedback",
        "get_retrieval",
        "report",
        "get_corpus",
        "drop_corpus",
        "list_documents",
        "get_document",
        "delete_document",
    }
)
# Operations whose parts may be full, down or late without the answer being an error.
UNHURT = frozenset({"healthz", "readyz", "status", "ingest_documents"})

HEADERS: Mapping[str, Json] = {
    "X-Request-Id": {
        "description": "the request's own, or a new one",
        "required": True,
        "schema": {"type": "string"},
    },
    "Server-Timing": {
        "description": "the time of each stage in ms, `total` at last",
        "required": True,
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "seconds",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    },
    "WWW-Authenticate": {"required": True, "schema": {"const": "Bearer"}},
}
ALWAYS = ("X-Request-Id", "Server-Timing")
REQUEST_ID = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "at most 128 printable ASCII characters; else a new one is made",
    "schema": {"type": "string"},
}
SCHEMES: Mapping[str, Json] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def install(app: FastAPI, routes: Iterable[APIRoute]) -> None:
    """Let the application serve the whole document; it is made when first asked for."""
    read, roles = app.openapi, roles_of(routes)

    @cache
    def whole() -> Json:
        document = read()
        complete(document, roles)
        return document

    app.openapi = whole  # type: ignore[method-assign]


def name_of(route: APIRoute) -> str:
    """An operation's id: its function's name."""
    return route.name


def roles_of(routes: Iterable[APIRoute]) -> dict[tuple[str, str], Role]:
    """Return the role that each path and method needs, where it is more than `read`."""
    needed: Mapping[Role, Any] = {"write": WRITER, "admin": ADMIN}
    return {
        (route.path_format, method.lower()): role
        for route in routes
        for method in route.methods or ()
        for role, guard in needed.items()
        if guard in route.dependencies
    }


def complete(document: Json, roles: Mapping[tuple[str, str], Role]) -> None:
    """Say who may ask, how each operation fails and which headers it answers; show examples."""
    components = document["components"]
    schemas = components["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update(error_schemas())
    describe_filters(schemas)
    components["headers"] = dict(HEADERS)
    components["parameters"] = {"RequestId": REQUEST_ID}
    components["responses"] = {}
    components["securitySchemes"] = dict(SCHEMES)
    for path, method, operation in operations(document):
        role = roles.get((path, method), "read")
        restrict(operation, path, role)
        describe_parameters(operation)
        describe_body(operation)
        describe_answers(operation)
        show_example(operation)
        told = operation["responses"]
        for status in statuses(operation, role):
            told[str(status)] = failure(path, status, components["responses"])
        operation["responses"] = dict(sorted(told.items()))


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def error_schemas() -> Json:
    models = [(model, "serialization") for model in BODIES.values()]
    _, schemas = models_json_schema(
        models,  # type: ignore[arg-type]
        ref_template="#/components/schemas/{model}",
    )
    described: Json = schemas["$defs"]
    return described


def restrict(operation: Json, path: str, role: Role) -> None:
    """Say which key an operation needs; open paths need none."""
    if path in OPEN_PATHS:
        operation["security"] = []
        return
    operation["x-role"] = role
    operation["security"] = [{name: []} for name in SCHEMES]


def describe_parameters(operation: Json) -> None:
    """What a parameter may lack is left out, and never null, which is a word in a URL."""
    parameters = operation.setdefault("parameters", [])
    for parameter in parameters:
        choices = parameter["schema"].pop("anyOf", [])
        parameter["schema"].update(*(one for one in choices if one != {"type": "null"}))
        if parameter["name"] in PARAMETERS and parameter["required"]:
            parameter["example"] = PARAMETERS[parameter["name"]]
    parameters.append({"$ref": "#/components/parameters/RequestId"})


def describe_body(operation: Json) -> None:
    """What fits two kinds of body is not refused."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        if "oneOf" in content["schema"]:
            content["schema"]["anyOf"] = content["schema"].pop("oneOf")


def describe_answers(operation: Json) -> None:
    """Describe what succeeds; what FastAPI says of failures is not ours."""
    answers = operation["responses"]
    answers.pop("422", None)
    for status, answer in answers.items():
        answer["description"] = "Done." if status == "200" else "Not yet."
        answer["headers"] = headers(ALWAYS)
        for content in answer["content"].values():
            if "$ref" in content["schema"]:
                content["schema"].pop("type", None)  # FastAPI takes lines for a text


def show_example(operation: Json) -> None:
    example = EXAMPLES.get(operation["operationId"])
    if example is None:
        return
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["example"] = example.body
    for content in operation["responses"]["200"]["content"].values():
        content["example"] = example.answer


def statuses(operation: Json, role: Role) -> Iterator[int]:
    """How an operation may fail; what it says itself of a status stands."""
    name = operation["operationId"]
    sends = operation.get("requestBody", {}).get("content", {})
    yield 401
    if "application/json" in sends:
        yield from (400, 413)
    if role != "read":
        yield 403
    if name in LOOKING_UP:
        yield 404
    # One parameter is the request's id, and what is said of the scorer needs one.
    if sends or len(operation["parameters"]) > 1 or name == "info":
        yield 422
    if name not in UNHURT:
        yield from (429, 503, 504)


def failure(path: str, status: int, responses: Json) -> Json:
    """Return a reference to an error's description in the shape of its route."""
    shape = SHAPES.get(path, native.error)
    schema = BODIES[shape].__name__
    name = f"{schema}{status}"
    error = ERRORS[status]
    responses[name] = {
        "description": REASONS[status],
        "headers": headers((*ALWAYS, *headers_of(error))),
        "content": {
            "application/json": {
                "schema": {"$ref": f"#/components/schemas/{schema}"},
                "example": shape(error, "7c9e6679f7424de095f5f0d5a0f2a1c3"),
            }
        },
    }
    return {"$ref": f"#/components/responses/{name}"}


def headers(names: Iterable[str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
