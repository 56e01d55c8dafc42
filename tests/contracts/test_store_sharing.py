"""Several stores, in one process or more, on the same data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deployments.stores.lance import LanceStore
from tests.contracts.passages import DOCS, X, assert_not_found, find_near, find_text, ids, passage


async def test_another_store_sees_every_write_at_once(tmp_path: Path) -> None:
    writer = LanceStore(str(tmp_path), 3)
    reader = LanceStore(str(tmp_path), 3, read_only=True)

    for number in range(5):
        await writer.upsert(DOCS, [passage("a", f"version{number}", X)])
        assert ids(await find_text(reader, f"version{number}")) == ["a#0"]
        assert await find_text(reader, f"version{number - 1}") == []
        assert [hit.chunk.text for hit in await find_near(reader, X)] == [f"version{number}"]
    await writer.delete(DOCS, ["a"])
    assert await find_text(reader, "version4") == []


async def test_another_store_follows_a_corpus_dropped_and_made_again(tmp_path: Path) -> None:
    writer = LanceStore(str(tmp_path), 3)
    reader = LanceStore(str(tmp_path), 3)
    for name in "abc":
        await writer.upsert(DOCS, [passage(name)])
    assert ids(await find_text(reader, "word")) == ["a#0", "b#0", "c#0"]

    await writer.drop(DOCS)
    await assert_not_found(reader, DOCS)
    await writer.upsert(DOCS, [passage("d")])
    assert ids(await find_text(reader, "word")) == ["d#0"]
    await writer.drop(DOCS)
    await writer.upsert(DOCS, [passage("e")])
    assert ids(await find_text(reader, "word")) == ["e#0"]
    assert ids(await find_near(reader, X)) == ["e#0"]
    await writer.drop(DOCS)
    await reader.upsert(DOCS, [passage("f")])
    assert ids(await find_text(writer, "word")) == ["f#0"]


READER = """
import asyncio, sys
from deployments.stores.lance import LanceStore
from deployments.stores.protocol import LegQuery
from pipeline.documents import CorpusKey

async def main():
    store = LanceStore(sys.argv[1], 3, read_only=True)
    for line in sys.stdin:
        hits = await store.search(CorpusKey("acme", "docs"), LegQuery("bm25", 10, text=line))
        print(*(hit.chunk.id for hit in hits), flush=True)

asyncio.run(main())
"""


async def test_another_process_sees_every_write_at_once(tmp_path: Path) -> None:
    writer = LanceStore(str(tmp_path), 3)
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name in "abc":
            await writer.upsert(DOCS, [passage(name)])
            print("word", file=process.stdin, flush=True)
            assert f"{name}#0" in process.stdout.readline().split()
        await writer.delete(DOCS, ["b"])
        print("word", file=process.stdin, flush=True)
        assert process.stdout.readline().split() == ["a#0", "c#0"]
        process.stdin.close()
