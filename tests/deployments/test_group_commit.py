from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from deployments.group_commit import GroupCommit
from pipeline.errors import InvalidInput, Unavailable


class Database:
    """Keeps the groups that are committed; while `held` it is busy. It knows no negative number,
    and `broken` it fails."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.free = asyncio.Event()
        self.free.set()
        self.broken = False
        self.asked = 0

    async def commit(self, items: Sequence[int]) -> list[str]:
        self.asked += 1
        await self.free.wait()
        if self.broken:
            raise OSError("no space")
        if min(items) < 0:
            raise InvalidInput("no such number")
        self.groups.append(list(items))
        return [f"stored {item}" for item in items]


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
async def group(database: Database) -> AsyncIterator[GroupCommit[int, str]]:
    one = GroupCommit(database.commit, enough=10, weigh=abs)
    yield one
    database.free.set()
    await one.close()


async def test_what_comes_while_a_group_is_committed_makes_the_next(
    group: GroupCommit[int, str], database: Database
) -> None:
    database.free.clear()
    first = asyncio.create_task(group.put([1]))
    while not database.asked:
        await asyncio.sleep(0)
    rest = [asyncio.create_task(group.put([number])) for number in (2, 3)]
    await asyncio.sleep(0)
    database.free.set()
    assert await asyncio.gather(first, *rest) == [["stored 1"], ["stored 2"], ["stored 3"]]
    assert database.groups == [[1], [2, 3]]


async def test_a_group_is_no_heavier_than_it_may_be(
    group: GroupCommit[int, str], database: Database
) -> None:
    await group.put([8, 8, 8, 20, 1])
    assert database.groups == [[8, 8, 8], [20], [1]]


async def test_a_group_waits_for_more_until_it_is_full(database: Database) -> None:
    group = GroupCommit(database.commit, enough=10, weigh=abs, wait_s=60.0)
    first = asyncio.create_task(group.put([1]))
    await asyncio.sleep(0.01)
    assert database.groups == []
    await group.put([9])
    await first
    assert database.groups == [[1, 9]]
    await group.close()


async def test_a_group_that_is_never_full_is_committed_in_time(database: Database) -> None:
    group = GroupCommit(database.commit, enough=10, wait_s=0.01)
    assert await group.put([1]) == ["stored 1"]
    assert await group.put([2]) == ["stored 2"]
    await group.close()


async def test_an_item_that_cannot_be_stored_holds_up_no_other(
    group: GroupCommit[int, str], database: Database
) -> None:
    first, bad, last = await group.put([1, -1, 2])
    assert (first, last) == ("stored 1", "stored 2")
    assert isinstance(bad, InvalidInput)
    assert database.groups == [[1], [2]]


async def test_a_database_that_fails_fails_its_group_and_no_later_one(
    group: GroupCommit[int, str], database: Database
) -> None:
    database.broken = True
    with pytest.raises(Unavailable, match="the tracker is down"):
        await group.put([1, 2])
    assert group.last_error == "no space"
    database.broken = False
    assert await group.put([1, 2]) == ["stored 1", "stored 2"]


async def test_what_a_sender_that_left_had_put_is_not_committed(
    group: GroupCommit[int, str], database: Database
) -> None:
    database.free.clear()
    first = asyncio.create_task(group.put([1]))
    while not database.asked:
        await asyncio.sleep(0)
    leaving = asyncio.create_task(group.put([2]))
    staying = asyncio.create_task(group.put([3]))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    database.free.set()
    await asyncio.gather(first, staying)
    assert database.groups == [[1], [3]]


async def test_closing_commits_what_waits_and_what_is_being_committed(database: Database) -> None:
    group = GroupCommit(database.commit, enough=10)
    database.free.clear()
    first = asyncio.create_task(group.put([1]))
    while not database.asked:
        await asyncio.sleep(0)
    second = asyncio.create_task(group.put([2]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(group.close())
    await asyncio.sleep(0.01)
    database.free.set()
    await closing
    assert (await first, await second) == (["stored 1"], ["stored 2"])
    assert database.groups == [[1, 2]]
    with pytest.raises(Unavailable):
        await group.put([3])


async def test_nothing_at_all_is_no_error(group: GroupCommit[int, str]) -> None:
    assert await group.put([]) == []
