"""Calling another deployment: by value where it fits, within a time, with our own errors."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from ray.serve.exceptions import BackPressureError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

from deployments.budget import GRACE_S, left_s
from pipeline.errors import DeadlineExceeded, OnepassError, Overloaded, Unavailable

logger = logging.getLogger(__name__)

# Up to this a payload travels inside the call's message, which is about three times faster than
# by reference; the message cap is 4 MiB, in both directions.
BY_VALUE_BYTES = 2 * 2**20
LOST_REPLICA = (ActorDiedError, ActorUnavailableError, ReplicaUnavailableError)

Handle: TypeAlias = DeploymentHandle[Any]


class AnswerTooLarge(Exception):
    """The answer does not fit a message and must be asked for by reference."""


async def call(
    handle: Handle,
    method: str,
    *args: Any,
    timeout_s: float,
    retry: bool = False,
    tell_time: bool = False,
) -> Any:
    """Call `method` on one replica and return its answer.

    `retry` is for idempotent calls: one whose replica died goes to another, once. An answer too
    large for a message is asked for again by reference, whether `retry` is set or not. With
    `tell_time` the method's last argument is the time that it has, in ms, and it may be a little
    late. Raises the OnepassError that the replica raised; DeadlineExceeded when the time is up;
    Overloaded when its queue is full; Unavailable for everything else, so that no caller meets
    an error of Ray.
    """
    request = Request(handle, method, args, time.monotonic() + timeout_s, tell_time)
    by_reference = len(pickle.dumps(args, 5)) > BY_VALUE_BYTES
    try:
        return await send(request, by_reference)
    except AnswerTooLarge:
        by_reference = True
    except LOST_REPLICA as error:
        if not retry:
            raise request.failed(error) from None
        logger.warning("%s lost a replica, trying another", request)
    except Exception as error:  # whatever another process raises
        raise request.failed(error) from None
    try:
        return await send(request, by_reference)
    except Exception as error:
        raise request.failed(error) from None


@dataclass(frozen=True, slots=True)
class Request:
    """One call; `deadline` is on the monotonic clock."""

    handle: Handle
    method: str
    args: tuple[Any, ...]
    deadline: float
    tell_time: bool

    def __str__(self) -> str:
        return f"{self.handle.deployment_name}.{self.method}"

    def failed(self, error: Exception) -> OnepassError:
        return known(error, self.handle.deployment_name, self.method)


async def send(request: Request, by_reference: bool) -> Any:
    """Send one call; one that nobody awaits any more is cancelled at its replica too."""
    seconds = left_s(request.deadline)
    args = (*request.args, seconds * 1e3) if request.tell_time else request.args
    remote = request.handle.options(method_name=request.method, _by_reference=by_reference)
    response = remote.remote(*args)
    try:
        return await asyncio.wait_for(response, seconds + GRACE_S * request.tell_time)
    except (asyncio.TimeoutError, asyncio.CancelledError) as error:
        response.cancel()  # type: ignore[no-untyped-call]
        if isinstance(error, asyncio.CancelledError) and not is_leaving():
            raise Unavailable(f"{request} was cancelled at its replica") from None
        raise
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and not by_reference:
            raise AnswerTooLarge from None
        raise


def is_leaving() -> bool:
    """Whether it is this task that is being cancelled; before Python 3.11 none can tell."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


def known(error: Exception, name: str, method: str) -> OnepassError:
    """Return the error as one of ours; what was not foreseen is logged."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, OnepassError):
        return cause
    if isinstance(cause, asyncio.TimeoutError):
        return DeadlineExceeded(f"{name} did not answer in time")
    if isinstance(cause, LOST_REPLICA):
        return Unavailable(f"{name} lost the replica that was answering")
    if isinstance(cause, BackPressureError):
        return Overloaded(f"{name} has a full queue", None, 1)
    logger.error("%s.%s failed", name, method, exc_info=error)
    return Unavailable(f"{name} failed")


async def broadcast(handle: Handle, method: str, timeout_s: float) -> list[Any]:
    """Call `method` on every replica; a replica that fails gives its exception.

    Raises Unavailable if there is no replica, or none answers in time.
    """
    try:
        response = handle.broadcast(method)
        results: list[Any] = await asyncio.wait_for(
            response.results_async(return_exceptions=True), timeout_s
        )
    except Exception as error:  # whatever Ray raises where there is no replica
        raise known(error, handle.deployment_name, method) from None
    return results
