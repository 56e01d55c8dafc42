"""Calling another deployment: by value where it fits, within a time, with our own errors."""

from __future__ import annotations

import asyncio
import logging
import pickle
from typing import Any, TypeAlias

import grpc
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from ray.serve.exceptions import BackPressureError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

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
    grace_s: float | None = None,
) -> Any:
    """Call `method` on one replica and return its answer.

    `retry` is for idempotent calls: one whose replica died goes to another, once. With `grace_s`
    the method's last argument is the time that it has, in ms: what is left of `timeout_s`, less
    the grace. Raises the OnepassError that the replica raised; DeadlineExceeded after
    `timeout_s`; Overloaded when its queue is full; Unavailable for everything else, so that no
    caller meets an error of Ray.
    """
    name = handle.deployment_name
    deadline = asyncio.get_running_loop().time() + timeout_s
    by_reference = len(pickle.dumps(args, 5)) > BY_VALUE_BYTES
    for last_try in (not retry, True):
        left = deadline - asyncio.get_running_loop().time()
        timed = args if grace_s is None else (*args, max(left - grace_s, 0.0) * 1e3)
        try:
            return await within(left, handle, method, timed, by_reference)
        except AnswerTooLarge:
            by_reference = True
        except LOST_REPLICA as error:
            logger.warning("%s.%s lost its replica: %s", name, method, type(error).__name__)
            if last_try:
                raise Unavailable(f"{name} lost the replica that was answering") from None
        except Exception as error:  # whatever else another process raises
            raise known(error, name, method) from None
    raise Unavailable(f"{name} gave an answer too large to send")


async def within(
    seconds: float, handle: Handle, method: str, args: tuple[Any, ...], by_reference: bool
) -> Any:
    """Await one call; one that nobody awaits any more is cancelled at its replica too."""
    response = getattr(handle.options(_by_reference=by_reference), method).remote(*args)
    try:
        return await asyncio.wait_for(response, seconds)
    except (asyncio.TimeoutError, asyncio.CancelledError):
        response.cancel()
        raise
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and not by_reference:
            raise AnswerTooLarge from None
        raise


def known(error: Exception, name: str, method: str) -> OnepassError:
    """Return the error as one of ours; what was not foreseen is logged."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, OnepassError):
        return cause
    if isinstance(cause, asyncio.TimeoutError):
        return DeadlineExceeded(f"{name} did not answer in time")
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
