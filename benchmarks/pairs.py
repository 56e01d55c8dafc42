"""The pairs that every contender scores: one query and the texts of one request."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

EXAMPLES = Path(__file__).parents[1] / "examples"
SHORTEST, LONGEST = 20, 400
# Beta's two parameters: (142 - 20) / (400 - 20) is its mean, and short texts are more frequent.
SPREAD = (1.3, 2.75)
SPECIAL_TOKENS = 3
SUFFIXES = (".md", ".txt")


@dataclass(frozen=True, slots=True)
class Pairs:
    """One request: `lengths` are the tokens of each (query, text) pair, special ones included."""

    query: str
    texts: tuple[str, ...]
    lengths: tuple[int, ...]

    def save(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return a model's tokenizer with its own padding and limits off, as counting needs it."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def make_pairs(
    tokenizer: Tokenizer, count: int = 100, seed: int = 0, corpus: Path | None = None
) -> Pairs:
    """Cut texts of 20 to 400 tokens, 142 on average, out of real English; always the same ones.

    The source is the example corpus, or `corpus`: a file of JSON lines with `text`. The tokenizer
    must split at white space first, as WordPiece does, for the lengths to be exact.
    """
    random = np.random.default_rng(seed)
    query = first_question()
    words = " ".join(example_texts() if corpus is None else json_texts(corpus)).split()
    frame = len(tokenizer.encode(query, add_special_tokens=False).ids) + SPECIAL_TOKENS
    sizes = [len(one.ids) for one in tokenizer.encode_batch(words, add_special_tokens=False)]
    ends = np.array([0, *itertools.accumulate(sizes)])
    last_start = int(np.searchsorted(ends, ends[-1] - LONGEST))
    targets = SHORTEST + (LONGEST - SHORTEST) * random.beta(*SPREAD, size=count)
    texts, lengths = [], []
    for target, start in zip(targets, random.integers(0, last_start, size=count), strict=True):
        end = int(np.searchsorted(ends, ends[start] + target - frame))
        texts.append(" ".join(words[start:end]))
        lengths.append(int(ends[end] - ends[start]) + frame)
    return Pairs(query, tuple(texts), tuple(lengths))


def first_question() -> str:
    with (EXAMPLES / "questions.jsonl").open(encoding="utf-8") as lines:
        return str(json.loads(next(lines))["question"])


def example_texts() -> Iterator[str]:
    for path in sorted((EXAMPLES / "corpus").rglob("*")):
        if path.suffix in SUFFIXES:
            yield path.read_text(encoding="utf-8")


def json_texts(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield str(json.loads(line)["text"])
