"""Onepass, which chooses its batches itself."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from benchmarks.ours import running_batcher, score_texts
from benchmarks.peers.protocol import Score, answer_lines


def main() -> None:
    loop, stack = asyncio.new_event_loop(), contextlib.AsyncExitStack()

    def load(folder: Path) -> Score:
        entered = stack.enter_async_context(running_batcher(folder))
        _, batcher = loop.run_until_complete(entered)

        def score(query: str, texts: list[str], size: int | None) -> list[float]:
            return loop.run_until_complete(score_texts(batcher, query, texts))

        return score

    answer_lines(load)
    loop.run_until_complete(stack.aclose())


if __name__ == "__main__":
    main()
