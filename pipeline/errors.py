"""Every error that a caller may see; `deployments.errors` maps them to HTTP in one place."""

from __future__ import annotations


class OnepassError(Exception):
    """An error with an HTTP status and a stable machine-readable type.

    `param` names the request field at fault, never its value. Instances survive pickling, so
    they cross Ray handles unchanged.
    """

    status = 500
    type = "internal"

    def __init__(self, message: str, param: str | None = None, retry_after_s: int | None = None):
        super().__init__(message, param, retry_after_s)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.message


class MalformedRequest(OnepassError):
    status = 400
    type = "malformed_request"


class Unauthorized(OnepassError):
    status = 401
    type = "unauthorized"


class Forbidden(OnepassError):
    status = 403
    type = "forbidden"


class NotFound(OnepassError):
    status = 404
    type = "not_found"


class PayloadTooLarge(OnepassError):
    status = 413
    type = "payload_too_large"


class InvalidInput(OnepassError):
    status = 422
    type = "invalid_input"


class Overloaded(OnepassError):
    status = 429
    type = "overloaded"


class Unavailable(OnepassError):
    status = 503
    type = "unavailable"


class DeadlineExceeded(OnepassError):
    status = 504
    type = "deadline_exceeded"
