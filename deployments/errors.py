"""The one place where errors become HTTP."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from deployments.options import message_of, path_of
from pipeline.errors import MalformedRequest, NotFound, OnepassError

logger = logging.getLogger(__name__)

HTTP_TYPES = {
    400: MalformedRequest.type,
    404: NotFound.type,
    405: "method_not_allowed",
}


def install(app: FastAPI) -> None:
    """Register the handlers; what none of them foresees, the middleware answers."""
    app.add_exception_handler(OnepassError, on_known)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)


def error_response(
    request_id: str | None,
    status: int,
    type_: str,
    message: str,
    param: str | None = None,
    retry_after_s: int | None = None,
) -> JSONResponse:
    """Return the error body of the native API; it never holds a value of the request."""
    error = {"type": type_, "message": message, "param": param, "request_id": request_id}
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return JSONResponse({"error": error}, status, headers=headers)


def of_error(request_id: str | None, error: OnepassError) -> JSONResponse:
    return error_response(
        request_id, error.status, error.type, error.message, error.param, error.retry_after_s
    )


def unforeseen(request_id: str | None) -> JSONResponse:
    """Return the answer to an error of ours: a 500 without details."""
    return error_response(request_id, 500, "internal", "internal error")


async def on_known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OnepassError)
    if error.status >= 500:
        logger.warning("%s %s: %s", request.method, request.url.path, error)
    return of_error(request_id_of(request), error)


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return of_error(
            request_id_of(request), MalformedRequest("the body is not valid JSON", "body")
        )
    # The first part of a location only says that it is the body, a header or the path.
    param = path_of([*first["loc"][1:], *first.get("ctx", {}).get("path", ())]) or "body"
    return error_response(request_id_of(request), 422, "invalid_input", message_of(first), param)


async def on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    type_ = HTTP_TYPES.get(error.status_code, "http_error")
    return error_response(request_id_of(request), error.status_code, type_, str(error.detail))


def request_id_of(request: Request) -> str | None:
    value: str | None = request.scope.get("state", {}).get("request_id")
    return value
