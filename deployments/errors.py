"""The one place where errors become HTTP, each in the shape that its route's clients read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from deployments.api import cohere, jina, native, nim, openai, tei
from deployments.api.wire import TOO_MANY
from deployments.options import message_of, path_of
from pipeline.errors import (
    InvalidInput,
    MalformedRequest,
    NotFound,
    OnepassError,
    PayloadTooLarge,
)

logger = logging.getLogger(__name__)

# Makes an error's body; it never holds a value of the request.
Shape = Callable[[OnepassError, str | None], dict[str, Any]]

# All other paths have the native API's shape.
SHAPES: Mapping[str, Shape] = {
    "/v1/rerank": jina.error,
    "/v2/rerank": cohere.error,
    "/rerank": tei.error,
    "/info": tei.error,
    "/score": openai.error,
    "/v1/score": openai.error,
    "/v1/embeddings": openai.error,
    "/v1/models": openai.error,
    "/v1/ranking": nim.error,
}


class MethodNotAllowed(OnepassError):
    status = 405
    type = "method_not_allowed"


# What Starlette and FastAPI raise of themselves.
OF_STATUS: Mapping[int, type[OnepassError]] = {
    400: MalformedRequest,
    404: NotFound,
    405: MethodNotAllowed,
}


def install(app: FastAPI) -> None:
    """Register the handlers; what none of them foresees, the middleware answers."""
    app.add_exception_handler(OnepassError, on_known)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)


def answer(path: str, request_id: str | None, error: OnepassError) -> JSONResponse:
    """Return an error's answer as clients of the route `path` read it."""
    body = SHAPES.get(path, native.error)(error, request_id)
    return JSONResponse(body, error.status, headers=headers_of(error))


def unforeseen(path: str, request_id: str | None) -> JSONResponse:
    """Return the answer to an error of ours: a 500 without details."""
    return answer(path, request_id, OnepassError("internal error"))


def headers_of(error: OnepassError) -> dict[str, str]:
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def path_within(scope: Mapping[str, Any]) -> str:
    """The path below the application's route prefix."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "").rstrip("/"))


async def on_known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OnepassError)
    if error.status >= 500:
        logger.warning("%s %s: %s", request.method, request.url.path, error)
    return answer_to(request, error)


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return answer_to(request, MalformedRequest("the body is not valid JSON", "body"))
    # The first part of a location only says that it is the body, a header or the path.
    param = path_of([*first["loc"][1:], *first.get("ctx", {}).get("path", ())]) or "body"
    known = PayloadTooLarge if first["type"] == TOO_MANY else InvalidInput
    return answer_to(request, known(message_of(first), param))


async def on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    known = OF_STATUS.get(error.status_code, OnepassError)
    response = answer_to(request, known(str(error.detail)))
    response.headers.update(error.headers or {})
    if methods := methods_at(request):
        response.headers["Allow"] = ", ".join(methods)
    return response


def methods_at(request: Request) -> list[str]:
    """The methods of all our routes on a path: Starlette names those of the first alone."""
    routes: Sequence[APIRoute] = request.app.state.routes
    found = [one for one in routes if one.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in found for method in route.methods or ()})


def answer_to(request: Request, error: OnepassError) -> JSONResponse:
    request_id: str | None = request.scope.get("state", {}).get("request_id")
    return answer(path_within(request.scope), request_id, error)
