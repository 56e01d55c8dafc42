"""A Python with clients installed in it, kept running, for importing them takes seconds."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENVIRONMENTS = Path(__file__).parents[2] / ".venv-clients"
RUNNER = Path(__file__).with_name("runner.py")
PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Outcome:
    """The names that a block left, or its error's class and message; and the hosts other than
    this machine that it asked for, in vain."""

    left: Mapping[str, Any]
    error: str | None
    message: str
    refused: list[str]


class Interpreter:
    def __init__(self, name: str, home: Path) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            # What these two ask the internet for at their start.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "HAYSTACK_TELEMETRY_ENABLED": "False",
        }
        self._process = subprocess.Popen(
            [python_of(name), "-W", "ignore", str(RUNNER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, setup: str, block: str, names: Mapping[str, Any], wanted: list[str]) -> Outcome:
        """Run a block of code after `setup` has run, with `names` in place of what that named."""
        request = {"setup": setup, "block": block, "names": dict(names), "wanted": wanted}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watch = threading.Timer(PATIENCE_S, self._process.kill)
        watch.start()
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        watch.cancel()
        assert answer, "the interpreter ended, or had to be ended, without an answer"
        return Outcome(**json.loads(answer))

    def close(self) -> None:
        self._process.communicate(timeout=30)  # it ends where its input does


def python_of(name: str) -> Path:
    return ENVIRONMENTS / name / "bin" / "python"


def is_installed(name: str) -> bool:
    return (ENVIRONMENTS / name / ".installed").exists()
