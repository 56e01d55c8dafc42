"""What the tracker takes and gives: records and feedback a second, the wait that it adds to a
search and a purge to a writer, and the size of its file.

`python -m benchmarks.tracking` prints Markdown tables; --json prints the same as one object. It
needs four minutes on two cores and 2 GB of disk in --folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.machine import describe_machine
from benchmarks.tracking_data import SHAPES, SqliteTracker, fill, retrieval
from deployments.outbox import Outbox
from deployments.recorder import Recorder
from deployments.tracker_options import TrackerArgs
from tracker.records import RetrievalRecord

SEARCH_S = 0.005
ROUNDS = 3
KEPT_SHARE = 0.25
Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--retrievals", type=int, default=1_000_000, help="to purge three of four")
    parser.add_argument("--records", type=int, default=4_000, help="to write at each setting")
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: temporary")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        figures = asyncio.run(measure(Path(folder), given.records, given.retrievals))
    if given.json:
        print(json.dumps(figures))
    else:
        show(figures, Console(width=160))


async def measure(folder: Path, records: int, retrievals: int) -> Figures:
    return {
        "machine": describe_machine(),
        "writing": [await writing(folder, records, hits) for hits in (10, 50)],
        "feedback": await feedback(folder, records),
        "search": await added_to_a_search(),
        "purge": await purge(folder, retrievals),
    }


async def writing(folder: Path, count: int, hits: int) -> Figures:
    """Records a second through the outbox and the Recorder, and written in a request's way into
    SQLite: medians of rounds that take turns. All are durable, but for SQLite's NORMAL."""
    records = [retrieval(hits) for _ in range(count)]
    rates: dict[str, list[float]] = {name: [] for name in ("ours", *SHAPES)}
    for round_ in range(ROUNDS):
        rates["ours"].append(await written(folder / f"{hits}-{round_}.duckdb", records))
        for name, shape in SHAPES.items():
            path = folder / f"{hits}-{round_}-{name}.sqlite".replace(" ", "-")
            with SqliteTracker(path, shape) as peer:
                rates[name].append(peer.rate(records[: count // 8]))
    return {"hits": hits, **{name: statistics.median(some) for name, some in rates.items()}}


async def written(path: Path, records: Sequence[RetrievalRecord]) -> float:
    recorder = await opened(path)
    outbox = Outbox(recorder.record, max_rows=10**9)
    started = time.perf_counter()
    outbox.start()
    for record in records:
        outbox.put(record)
    while outbox.sent < len(records):
        await asyncio.sleep(0.002)
    rate = len(records) / (time.perf_counter() - started)
    await outbox.close(1)
    await recorder.close()
    return rate


async def feedback(folder: Path, count: int) -> Figures:
    """Judgements a second that were answered, from one client and from 64 at once."""
    recorder = await opened(folder / "feedback.duckdb")
    records = [retrieval(10) for _ in range(count)]
    await recorder.record(records)
    figures: Figures = {}
    for clients, some in ((1, records[: count // 10]), (64, records)):
        rest = iter(some)

        async def judge(rest: Any = rest) -> None:
            for record in rest:
                name = record.hits[0].document_id
                await recorder.feedback(record.tenant, record.retrieval_id, name, "relevant")

        started = time.perf_counter()
        await asyncio.gather(*(judge() for _ in range(clients)))
        figures[f"clients_{clients}"] = len(some) / (time.perf_counter() - started)
    await recorder.close()
    return figures


async def added_to_a_search() -> Figures:
    """Milliseconds: the median of searches that wait for 5 ms, recorded and not, and of the
    handing over alone. The Recorder is another process; here it answers in 10 ms."""

    async def send(records: Sequence[RetrievalRecord]) -> list[str]:
        pickle.dumps(records, 5)  # as a handle does
        await asyncio.sleep(0.01)
        return []

    outbox = Outbox(send, max_rows=200_000)
    outbox.start()
    handing: list[float] = []

    def hand_over(record: RetrievalRecord) -> None:
        started = time.perf_counter()
        outbox.put(record)
        handing.append((time.perf_counter() - started) * 1e3)

    def forget(record: RetrievalRecord) -> None:
        pass

    medians = {}
    for name, keep in (("without", forget), ("with", hand_over), ("again", forget)):
        medians[name] = statistics.median(await searches(keep))
    await outbox.close(1)
    without = (medians["without"] + medians["again"]) / 2
    return {
        "without_ms": without,
        "with_ms": medians["with"],
        "added_ms": medians["with"] - without,
        "handing_over_ms": statistics.median(handing),
    }


async def searches(keep: Callable[[RetrievalRecord], None]) -> list[float]:
    """Run 2,000 searches with 50 hits, 4 at a time; return what each took, in ms."""
    record = retrieval(50)
    took: list[float] = []

    async def search() -> None:
        for _ in range(500):
            started = time.perf_counter()
            await asyncio.sleep(SEARCH_S)
            keep(record)
            took.append((time.perf_counter() - started) * 1e3)

    await asyncio.gather(*(search() for _ in range(4)))
    return took


async def purge(folder: Path, count: int) -> Figures:
    """Purge three quarters of `count` retrievals with 10 hits each, write as many again, purge
    seven eighths, and compact; the first and the last beside a writer, whose longest wait is told,
    compaction beside a reader too. 200 days: 80 with the first, 60 with the second."""
    path = folder / "purge.duckdb"
    begin = datetime.now(timezone.utc) - timedelta(days=200)
    fill(path, count, begin, timedelta(days=80))
    recorder = await opened(path)
    cutoff = begin + (1 - KEPT_SHARE) * timedelta(days=80)
    figures: Figures = {"retrievals": count, "hits": 10 * count, "bytes_full": size(path)}

    async def purge_all() -> None:
        figures["deleted"] = (await recorder.purge(cutoff)).retrievals

    async def write() -> None:
        await recorder.file.write(lambda store: store.record([retrieval(10)]))

    async def read() -> None:
        await recorder.status()

    figures["purge_s"], (figures["purge_writer_waited_ms"],) = await beside(purge_all, write)
    figures["bytes_purged"] = size(path)
    await recorder.close()
    fill(path, figures["deleted"], cutoff + timedelta(days=20), timedelta(days=60))
    figures["bytes_refilled"] = size(path)
    recorder = await opened(path)
    await recorder.purge(begin + timedelta(days=130))

    async def compact() -> None:
        await recorder.compact()

    figures["bytes_before_compaction"] = size(path)
    figures["compact_s"], waits = await beside(compact, write, read)
    figures["compact_writer_waited_ms"], figures["compact_reader_waited_ms"] = waits
    figures["bytes_compacted"] = size(path)
    await recorder.close()
    return figures


async def beside(
    work: Callable[[], Awaitable[None]], *others: Callable[[], Awaitable[None]]
) -> tuple[float, list[float]]:
    """Do work while each of the others is done every 10 ms; return its seconds and the longest
    time, in ms, that one of each took."""
    ended = asyncio.Event()

    async def repeat(other: Callable[[], Awaitable[None]]) -> float:
        longest = 0.0
        while not ended.is_set():
            started = time.perf_counter()
            await other()
            longest = max(longest, (time.perf_counter() - started) * 1e3)
            await asyncio.sleep(0.01)
        return longest

    repeating = [asyncio.create_task(repeat(other)) for other in others]
    started = time.perf_counter()
    await work()
    seconds = time.perf_counter() - started
    ended.set()
    return seconds, list(await asyncio.gather(*repeating))


async def opened(path: Path) -> Recorder:
    recorder = Recorder(TrackerArgs(path=str(path)))
    await recorder.ping()
    return recorder


def size(path: Path) -> int:
    return path.stat().st_size


def show(figures: Figures, console: Console) -> None:
    machine = ", ".join(f"{name} {value}" for name, value in figures["machine"].items())
    console.print(f"Machine: {machine}.")
    table = Table(box=box.MARKDOWN)
    for column in ("hits", "ours, records/s", *(f"SQLite, {name}" for name in SHAPES)):
        table.add_column(column, justify="right")
    for row in figures["writing"]:
        peers = [f"{row[name]:.0f} (x {row['ours'] / row[name]:.1f})" for name in SHAPES]
        table.add_row(str(row["hits"]), f"{row['ours']:.0f}", *peers)
    console.print(table)
    for part in ("feedback", "search", "purge"):
        table = Table("figure", "value", box=box.MARKDOWN)
        for name, value in figures[part].items():
            table.add_row(name, f"{value:,.3f}" if isinstance(value, float) else f"{value:,}")
        console.print(f"\n{part}")
        console.print(table)


if __name__ == "__main__":
    main()
