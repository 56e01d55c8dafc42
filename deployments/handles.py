"""Calling another deployment: by value, within a time, with Ray's errors as ours."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeAlias

from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

from pipeline.errors import DeadlineExceeded, OnepassError, Overloaded, Unavailable

logger = logging.getLogger(__name__)

# Below this a payload travels inside the call's message, which is about three times faster;
# the message cap is 4 MiB, and pickling adds to a text's own size.
BY_VALUE_BYTES = 2 * 2**20
Handle: TypeAlias = DeploymentHandle[Any]

LOST_REPLICA = (ActorDiedError, ActorUnavailableError, ReplicaUnavailableError)


async def call(
    handle: Handle,
    method: str,
    *args: Any,
    timeout_s: float,
    retry: bool = False,
    size: int = 0,
) -> Any:
    """Call `method` on one replica and return its answer.

    `retry` is for idempotent calls: a replica that died with the call in hand is replaced by
    another, once. `size` is the payload's rough size in bytes. Raises the OnepassError that the
    replica raised; DeadlineExceeded after `timeout_s`; Overloaded when its queue is full;
    Unavailable for everything else, so that no caller meets an error of Ray.
    """
    name = handle.deployment_name
    deadline = asyncio.get_running_loop().time() + timeout_s
    for attempt in (1, 2):
        remaining = deadline - asyncio.get_running_loop().time()
        try:
            return await within(remaining, handle, method, args, size)
        except OnepassError as error:
            raise (cause_of(error) or error) from None
        except asyncio.TimeoutError:
            raise DeadlineExceeded(f"{name} did not answer in time") from None
        except BackPressureError:
            raise Overloaded(f"{name} has a full queue", None, 1) from None
        except LOST_REPLICA as error:
            logger.warning("%s.%s lost its replica: %s", name, method, type(error).__name__)
            if not retry or attempt == 2:
                raise Unavailable(f"{name} lost the replica that was answering") from None
        except (RayError, RayServeException) as error:
            logger.exception("%s.%s failed", name, method)
            raise (cause_of(error) or Unavailable(f"{name} failed")) from None
    raise AssertionError("unreachable")


async def within(
    seconds: float, handle: Handle, method: str, args: tuple[Any, ...], size: int
) -> Any:
    """Await one call; one that nobody awaits any more is cancelled at its replica too."""
    response = getattr(handle.options(_by_reference=size > BY_VALUE_BYTES), method).remote(*args)
    try:
        return await asyncio.wait_for(response, seconds)
    except (asyncio.TimeoutError, asyncio.CancelledError):
        response.cancel()
        raise


def cause_of(error: BaseException) -> OnepassError | None:
    """Return the OnepassError inside Ray's wrapping, if that is what it is."""
    if isinstance(error, RayTaskError):
        cause = error.cause
        return cause if isinstance(cause, OnepassError) else None
    return error if isinstance(error, OnepassError) else None


async def broadcast(handle: Handle, method: str, timeout_s: float) -> list[Any]:
    """Call `method` on every replica; a replica that fails gives its exception."""
    response = handle.broadcast(method)
    results: list[Any] = await asyncio.wait_for(
        response.results_async(return_exceptions=True), timeout_s
    )
    return results
