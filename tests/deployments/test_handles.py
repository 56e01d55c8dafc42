"""Errors of another process, through a handle that raises what Ray raises."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import BackPressureError

from deployments.handles import call
from pipeline.errors import DeadlineExceeded, NotFound, OnepassError, Overloaded, Unavailable
from tests.deployments.handles import ScriptedHandle


class TooLarge(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.RESOURCE_EXHAUSTED


async def ask(handle: Any, *args: Any, **options: Any) -> Any:
    return await call(handle, "ask", *args, **{"timeout_s": 5.0, **options})


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (NotFound("no", "corpus"), NotFound),
        (BackPressureError(5, 4), Overloaded),
        (ValueError("secret"), Unavailable),
        (RuntimeError("secret"), Unavailable),
    ],
)
async def test_every_error_comes_out_as_one_of_ours(
    raised: Exception, seen: type[OnepassError]
) -> None:
    with pytest.raises(seen) as caught:
        await ask(ScriptedHandle(raised))
    assert "secret" not in str(caught.value)


async def test_an_idempotent_call_whose_replica_died_goes_to_another_once() -> None:
    assert await ask(ScriptedHandle(ActorDiedError(), "answer"), retry=True) == "answer"
    with pytest.raises(Unavailable):
        await ask(ScriptedHandle(ActorDiedError(), ActorDiedError()), retry=True)
    with pytest.raises(Unavailable):
        await ask(ScriptedHandle(ActorDiedError(), "never asked"))


async def test_a_call_that_takes_too_long_is_cancelled_at_its_replica() -> None:
    handle = ScriptedHandle(asyncio.get_running_loop().create_future())
    with pytest.raises(DeadlineExceeded):
        await ask(handle, timeout_s=0.01)
    assert handle.cancelled == 1


async def test_a_caller_that_leaves_cancels_its_call() -> None:
    handle = ScriptedHandle(asyncio.get_running_loop().create_future())
    waiting = asyncio.create_task(ask(handle))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert handle.cancelled == 1


async def test_small_payloads_go_by_value_and_large_ones_by_reference() -> None:
    handle = ScriptedHandle(1, 2)
    await ask(handle, ["text"])
    await ask(handle, ["x" * 3 * 2**20])
    assert [by_reference for by_reference, _ in handle.sent] == [False, True]


async def test_an_answer_too_large_for_a_message_is_asked_for_by_reference() -> None:
    handle = ScriptedHandle(TooLarge(), "large")
    assert await ask(handle, retry=True) == "large"
    assert [by_reference for by_reference, _ in handle.sent] == [False, True]


async def test_each_try_is_told_what_is_left_of_the_time() -> None:
    handle = ScriptedHandle(ActorDiedError(), "answer")
    await ask(handle, "q", timeout_s=2.0, retry=True, tell_time=True)
    (_, (query, first_ms)), (_, (_, second_ms)) = handle.sent
    assert query == "q"
    assert 2000 >= first_ms > second_ms > 0
