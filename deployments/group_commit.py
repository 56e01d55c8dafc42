"""Committing in groups: one transaction for all that arrived within a moment."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline.errors import InvalidInput, Unavailable

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(eq=False, slots=True)
class Waiting(Generic[Item, Answer]):
    """An item that waits for the next group commit."""

    item: Item
    done: asyncio.Future[Answer | InvalidInput]


class GroupCommit(Generic[Item, Answer]):
    """A queue with one committer.

    `commit` stores items in one transaction and returns an answer for each, in order. A group is
    taken `wait_s` after its first item came, or as soon as the items weigh `enough`, and weighs
    twice that at most, but for its last item; what comes while one is committed makes the next.
    An item may be committed again, whose commit was cut off, so `commit` must store what it is
    given twice once.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        enough: int,
        weigh: Callable[[Item], int] = lambda item: 1,
        wait_s: float = 0.0,
    ) -> None:
        self.commit = commit
        self.enough = enough
        self.weigh = weigh
        self.wait_s = wait_s
        self.waiting: deque[Waiting[Item, Answer]] = deque()
        self.weight = 0
        self.wake, self.full = asyncio.Event(), asyncio.Event()
        self.closed = False
        self.last_error: str | None = None  # says why items were not stored
        self.committer = asyncio.get_running_loop().create_task(self._commit_groups())

    def __len__(self) -> int:
        """How many items wait."""
        return len(self.waiting)

    async def put(self, items: Sequence[Item]) -> list[Answer | InvalidInput]:
        """Have items committed, all in the next group if they fit; return their answers.

        InvalidInput stands for an item that can never be stored. Raises Unavailable if the
        database failed: then nothing, or not all, is stored, and all may be sent again.
        """
        if self.closed:
            raise Unavailable("the tracker is closed")
        loop = asyncio.get_running_loop()
        waiting = [Waiting[Item, Answer](item, loop.create_future()) for item in items]
        self.waiting.extend(waiting)
        self.weight += sum(map(self.weigh, items))
        if waiting:
            self.wake.set()
        if self.weight >= self.enough:
            self.full.set()
        return await asyncio.gather(*(one.done for one in waiting))

    async def close(self) -> None:
        """Commit what waits, and end."""
        self.closed = True
        self.committer.cancel()
        await asyncio.gather(self.committer, return_exceptions=True)
        while self.waiting:
            await self._commit(self._take_group())

    async def _commit_groups(self) -> None:
        while True:
            await self.wake.wait()
            if self.wait_s:
                await self._fill()
            group = self._take_group()
            try:
                await self._commit(group)
            except asyncio.CancelledError:
                self.waiting.extendleft(reversed(group))  # `close` commits it
                raise

    async def _fill(self) -> None:
        """Wait for more, until the time is up or the group is full."""
        timer = asyncio.get_running_loop().call_later(self.wait_s, self.full.set)
        try:
            await self.full.wait()
        finally:
            timer.cancel()

    def _take_group(self) -> list[Waiting[Item, Answer]]:
        """Take the oldest items, as many as a group may hold; those whose sender has gone are
        forgotten."""
        group: list[Waiting[Item, Answer]] = []
        weight = 0
        while self.waiting and weight < 2 * self.enough:
            one = self.waiting.popleft()
            self.weight -= self.weigh(one.item)
            if not one.done.done():
                group.append(one)
                weight += self.weigh(one.item)
        if not self.waiting:
            self.wake.clear()
        if self.weight < self.enough:
            self.full.clear()
        return group

    async def _commit(self, group: Sequence[Waiting[Item, Answer]]) -> None:
        """Commit a group as one transaction; if it holds a bad value, its items one by one."""
        if not group:
            return
        try:
            answers: Sequence[Answer | InvalidInput]
            answers = await self.commit([one.item for one in group])
        except InvalidInput as error:
            if len(group) > 1:
                for one in group:
                    await self._commit([one])
                return
            logger.error("an item cannot be stored", exc_info=error)
            answers = [error]
        except Exception as error:  # the committer must outlive whatever the database raises
            self._fail(group, error)
            return
        for one, answer in zip(group, answers, strict=True):
            if not one.done.done():  # its sender may have gone meanwhile
                one.done.set_result(answer)

    def _fail(self, group: Sequence[Waiting[Item, Answer]], error: Exception) -> None:
        logger.error("a group was not stored", exc_info=error)
        self.last_error = str(error)
        for one in group:
            if not one.done.done():
                one.done.set_exception(Unavailable("the tracker is down"))
