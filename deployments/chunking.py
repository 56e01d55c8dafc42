"""Cutting documents into chunks at semantic boundaries, sized in tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from semantic_text_splitter import TextSplitter

from deployments.config import ChunkingArgs
from deployments.headings import Heading, find_headings, headings_in, mark_headings
from deployments.inference.settings import DEFAULT_MAX_TOKENS, position_limit, stored_settings
from deployments.inference.tokenizer_json import without_limits
from deployments.inference.tokens import PairTokenizer
from pipeline.context import CHARACTERS_PER_TOKEN

# Raised whenever texts are cut otherwise than before: stored documents are then cut anew.
VERSION = 2

# What is left of the window for the query, and for what stands between it and the text. A longer
# query costs the chunk's end, not the search.
QUERY_TOKENS = 64
SPECIAL_TOKENS = 3
# However long a title is, its chunks have so many tokens.
FEWEST_TOKENS = 16
# A title that takes of a chunk takes a multiple of this, so that few splitters are needed.
STEP = 16
SPLITTERS = 8

# The time of the splitter grows with the square of a text that has no boundaries, so it is shown
# so many characters at a time for each token of a chunk: about eight chunks.
VIEW_CHARACTERS = 32

# Where a chunk begins and ends.
Span = tuple[int, int]


class Chunker:
    """Cuts texts so that a chunk, its title and a query fit a model's window.

    Sizes are in tokens of the model in `folder`; without one a token is four characters. `recipe`
    names all that chunks depend on beside their document. Threads may share it.
    """

    def __init__(self, args: ChunkingArgs, folder: Path | None, window: int | None = None) -> None:
        """`window` is what the model is run with, if that is not its own."""
        self.args = args
        self.tokenizer: PairTokenizer | None = None
        self.file, limit = "", None
        if folder is not None:
            path, limit = folder / "tokenizer.json", window or own_window(folder)
            self.tokenizer = PairTokenizer(path, limit)
            # Its own padding would make every piece look as long as the window.
            self.file = without_limits(path.read_text("utf-8"))
        used = hashlib.sha256(self.file.encode()).hexdigest()
        self.recipe = json.dumps([VERSION, args.model_dump(), limit, used])
        self.splitter = lru_cache(SPLITTERS)(self._splitter)

    def chunks(self, text: str, title: str | None = None) -> list[str]:
        """Return the chunks of a text: parts of it as it is, without white space at their ends.

        They end where a section, a paragraph, a sentence or a word does, in this order of
        preference. Each begins with the end of the one before, as many of these whole as there
        may be overlap. Of a text of nothing but white space there are none.
        """
        size = self.size_beside(title or "")
        headings = find_headings(text)
        return [text[start:end] for start, end in self._spans(text, headings, size)]

    def size_beside(self, title: str) -> int:
        """Return the tokens that a chunk may have beside its title."""
        if self.tokenizer is None:
            return self.args.max_tokens
        (used,) = self.tokenizer.count([title])
        room = self.tokenizer.max_tokens - QUERY_TOKENS - SPECIAL_TOKENS - used
        if room >= self.args.max_tokens:
            return self.args.max_tokens
        return max(FEWEST_TOKENS, room - room % STEP)

    def _spans(self, text: str, headings: Sequence[Heading], size: int) -> Iterator[Span]:
        """Yield spans of chunks. What is shown of the text ends anywhere, so the last chunk in it
        is not taken: the next view begins with it."""
        splitter = self.splitter(size)
        start = 0
        while start < len(text):
            end = start + size * VIEW_CHARACTERS
            spans = spans_in(splitter, text[start:end], headings_in(headings, start, end))
            if end < len(text) and len(spans) > 1:
                end = start + spans.pop()[0]
            yield from ((start + first, start + last) for first, last in spans)
            start = end

    def _splitter(self, size: int) -> TextSplitter:
        overlap = min(self.args.overlap_tokens, size // 2)
        if self.tokenizer is None:
            return TextSplitter(size * CHARACTERS_PER_TOKEN, overlap=overlap * CHARACTERS_PER_TOKEN)
        return TextSplitter.from_huggingface_tokenizer_str(self.file, size, overlap=overlap)


def spans_in(splitter: TextSplitter, text: str, headings: Sequence[Heading]) -> list[Span]:
    marked = mark_headings(text, headings)
    return [
        (marked.original(start), marked.original(start + len(chunk) - 1) + 1)
        for start, chunk in splitter.chunk_indices(marked.text)
    ]


def own_window(folder: Path) -> int:
    """Return the tokens that a model reads at most, as its folder says."""
    settings = stored_settings(folder)
    if settings is not None:
        return settings.max_tokens
    return min(DEFAULT_MAX_TOKENS, position_limit(folder) or DEFAULT_MAX_TOKENS)
