"""A handle as Ray's, which answers from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Response:
    """What a handle's call returns: awaitable, and cancelled by whoever gives it up."""

    def __init__(self, answer: Callable[[], Any], handle: ScriptedHandle) -> None:
        self.answer = answer
        self.handle = handle

    def __await__(self) -> Any:
        return self.run().__await__()

    async def run(self) -> Any:
        result = self.answer()
        if asyncio.isfuture(result):
            return await result
        if isinstance(result, Exception):
            raise result
        return result

    def cancel(self) -> None:
        self.handle.cancelled += 1


class ScriptedHandle:
    """Answers its calls one after another from a list; notes how each was sent."""

    deployment_name = "Part"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[bool, tuple[Any, ...]]] = []
        self.cancelled = 0

    def options(self, *, method_name: str, _by_reference: bool) -> ScriptedHandle:
        self.by_reference = _by_reference
        return self

    def remote(self, *args: Any) -> Response:
        self.sent.append((self.by_reference, args))
        answer = self.answers.pop(0)
        return Response(lambda: answer, self)
