"""An ingest that is interrupted as a person does it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.deployments.cli.server import SmallServer

COMMAND = [sys.executable, "-c", "from deployments.cli.main import main; main()", "ingest"]


@pytest.mark.slow
def test_ctrl_c_ends_a_run_at_once_and_says_how_to_go_on(tmp_path: Path) -> None:
    lines = "".join(f'{{"id": "{number}", "text": "t"}}\n' for number in range(100))
    (tmp_path / "a.jsonl").write_text(lines)
    second, ended = threading.Event(), threading.Event()
    batches = 0

    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        nonlocal batches
        batches += 1
        if batches == 2:
            second.set()
            ended.wait(60)
        fields = {"status": "stored", "chunks": 1, "error": None}
        return 200, {"documents": [{"id": one["id"], **fields} for one in body["documents"]]}

    with SmallServer(answer) as server:
        run = subprocess.Popen(
            [*COMMAND, str(tmp_path), "--url", server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Where the tests run in the background SIGINT is ignored, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert second.wait(60)
        run.send_signal(signal.SIGINT)
        shown, told = run.communicate(timeout=60)
        ended.set()
    assert run.returncode == 130
    assert shown == ""
    assert told.endswith("stopped\ndefault: 64 stored; run the same command again to go on\n")
