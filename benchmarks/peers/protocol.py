"""How a contender is measured: a process of its own that answers lines of JSON with such lines.

It is started with a model's folder and a file of pairs, says `{"ready": versions}` once it has
loaded them, and answers each `{"batch": n}` with `{"seconds": s, "logits": […]}` for all pairs;
a batch of null asks for its default. Only the standard library is used here, because contenders
run in environments of their own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

# (query, texts, batch size or None for the default) -> one logit a text, in order.
Score = Callable[[str, list[str], "int | None"], Sequence[float]]


def answer_lines(load: Callable[[Path], Score], *packages: str) -> None:
    """Load, then answer until the input ends. `packages` are those whose versions matter."""
    answers = claim_output()
    folder, pairs = (Path(argument) for argument in sys.argv[1:3])
    request = json.loads(pairs.read_text(encoding="utf-8"))
    query, texts = request["query"], list(request["texts"])
    score = load(folder)
    say(answers, {"ready": {package: version(package) for package in packages}})
    for line in sys.stdin:
        batch = json.loads(line)["batch"]
        start = time.perf_counter()
        logits = [float(logit) for logit in score(query, texts, batch)]
        say(answers, {"seconds": time.perf_counter() - start, "logits": logits})


def claim_output() -> TextIO:
    """Keep standard output for the answers: what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def say(answers: TextIO, what: object) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()
