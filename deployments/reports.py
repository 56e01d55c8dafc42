"""Reading a report in a thread of the Recorder's, within a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from deployments.budget import left_s
from pipeline.errors import DeadlineExceeded
from tracker.records import Window
from tracker.report_rows import ROWS
from tracker.store import TrackerStore

# Those that list what is stored, newest first; the others are statements of their own.
LISTS: Mapping[str, Callable[[TrackerStore, Window, int, int], Sequence[Any]]] = {
    "comparisons": TrackerStore.find_comparisons,
    "judged-scores": TrackerStore.find_judged_scores,
}
NAMES = ", ".join(ROWS)


def read_report(
    store: TrackerStore, name: str, window: Window, limit: int, offset: int, deadline: float
) -> list[dict[str, Any]]:
    """Return a report's rows; DeadlineExceeded if that takes beyond `deadline`, on the monotonic
    clock."""
    if name in LISTS:
        rows = LISTS[name](store, window, limit, offset)
    else:
        seconds = left_s(deadline)
        if seconds == 0.0:  # it waited for another report all its time
            raise DeadlineExceeded("the tracker did not answer in time")
        rows = store.report(name, window, limit, offset, seconds)
    return [asdict(row) for row in rows]
