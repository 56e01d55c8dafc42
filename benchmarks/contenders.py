"""Contenders as processes: started on one model and one set of pairs, asked to run, ended."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.machine import ROOT, clean_environment

ENVIRONMENTS = ROOT / ".venv-peers"
OURS = "onepass"
SENTENCE_TRANSFORMERS = "benchmarks.peers.sentence_transformers"
# The last line of a traceback.
ERROR = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")


@dataclass(frozen=True, slots=True)
class Entry:
    """How a contender is started: its module, and the environment below .venv-peers it needs.

    `environment` None is the project's own. `batched` says whether it has a batch size to choose.
    """

    name: str
    module: str
    environment: str | None
    arguments: tuple[str, ...] = ()
    batched: bool = True

    @property
    def python(self) -> Path:
        if self.environment is None:
            return Path(sys.executable)
        return ENVIRONMENTS / self.environment / "bin" / "python"


ENTRIES = (
    Entry(OURS, "benchmarks.peers.onepass", None, batched=False),
    Entry(
        "sentence-transformers-torch",
        SENTENCE_TRANSFORMERS,
        "sentence-transformers-torch",
        ("torch",),
    ),
    Entry(
        "sentence-transformers-onnx",
        SENTENCE_TRANSFORMERS,
        "sentence-transformers-onnx",
        ("onnx",),
    ),
    Entry("fastembed", "benchmarks.peers.fastembed", "fastembed"),
    Entry("flashrank", "benchmarks.peers.flashrank", "flashrank", batched=False),
    Entry("ctranslate2", "benchmarks.peers.ctranslate2", "ctranslate2"),
    Entry("naive", "benchmarks.peers.naive", None),
)


class Absent(Exception):
    """A contender that cannot run; the message says why."""


@dataclass(frozen=True, slots=True)
class Run:
    """One request's time, and the logits of its pairs in their order."""

    seconds: float
    logits: Sequence[float]


class Contender:
    """A running contender, idle between runs. `versions` are those of what it is made of."""

    def __init__(self, entry: Entry, model: Path, pairs: Path) -> None:
        """Start it and wait until it has loaded. Absent if it cannot run."""
        if not entry.python.exists():
            raise Absent("not installed: run scripts/peers")
        self.entry = entry
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            [str(entry.python), "-m", entry.module, str(model), str(pairs), *entry.arguments],
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.versions: dict[str, str] = self._read()["ready"]

    def run(self, batch: int | None) -> Run:
        """Score all pairs once; None is the contender's default. Absent if it has ended."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: reading says why
            self.process.stdin.write(json.dumps({"batch": batch}) + "\n")
            self.process.stdin.flush()
        return Run(**self._read())

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.process.wait()
        self.errors.seek(0)
        said = [line for line in self.errors if ERROR.match(line)]
        raise Absent(said[-1].strip() if said else f"it ended with {self.process.returncode}")
