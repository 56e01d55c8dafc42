from __future__ import annotations

import asyncio
from collections.abc import Sequence

from deployments.outbox import Outbox
from pipeline.errors import Unavailable
from tests.records import record
from tracker.records import RetrievalRecord


class Tracker:
    """Keeps what it is sent; fails while it is down."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.refuses: set[str] = set()
        self.down = False

    async def __call__(self, records: Sequence[RetrievalRecord]) -> list[str]:
        if self.down:
            raise Unavailable("down")
        ids = [one.retrieval_id for one in records]
        self.kept += [one for one in ids if one not in self.refuses]
        return [one for one in ids if one in self.refuses]


async def test_records_are_sent_in_order_without_the_caller_waiting() -> None:
    tracker = Tracker()
    outbox = Outbox(tracker, 10)
    outbox.start()
    records = [record("a") for _ in range(3)]
    assert all(outbox.put(one) for one in records)
    while outbox.sent < 3:
        await asyncio.sleep(0.005)
    assert tracker.kept == [one.retrieval_id for one in records]
    await outbox.close(1)


async def test_a_full_outbox_drops_and_counts() -> None:
    outbox = Outbox(Tracker(), 4)  # rows: a record and its hit are two
    assert [outbox.put(record("a")) for _ in range(3)] == [True, True, False]
    assert outbox.dropped == 1


async def test_a_record_that_can_never_be_stored_is_counted_as_dropped() -> None:
    tracker = Tracker()
    outbox = Outbox(tracker, 10)
    good, bad = record("a"), record("b")
    tracker.refuses = {bad.retrieval_id}
    outbox.put(bad)
    outbox.put(good)
    await outbox.close(1)
    assert (tracker.kept, outbox.sent, outbox.dropped) == ([good.retrieval_id], 1, 1)


async def test_closing_sends_what_waits() -> None:
    tracker = Tracker()
    outbox = Outbox(tracker, 10)
    outbox.put(record("a"))
    await outbox.close(1)
    assert (len(tracker.kept), outbox.dropped) == (1, 0)


async def test_closing_while_the_tracker_is_down_counts_what_is_lost() -> None:
    tracker = Tracker()
    tracker.down = True
    outbox = Outbox(tracker, 10)
    outbox.put(record("a"))
    await outbox.close(1)
    assert outbox.dropped == 1
