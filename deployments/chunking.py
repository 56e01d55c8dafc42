"""Cutting documents into chunks at semantic boundaries, sized in tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from semantic_text_splitter import TextSplitter

from deployments.config import ChunkingArgs
from deployments.inference.tokenizer_json import without_limits
from pipeline.context import CHARACTERS_PER_TOKEN


class Chunker(Protocol):
    def chunks(self, text: str) -> list[str]: ...


def make_chunker(args: ChunkingArgs, tokenizer_json: Path | None) -> Chunker:
    """Cut at `max_tokens` of this tokenizer; without one, at four characters a token."""
    if tokenizer_json is None:
        return TextSplitter(
            args.max_tokens * CHARACTERS_PER_TOKEN,
            overlap=args.overlap_tokens * CHARACTERS_PER_TOKEN,
        )
    # A tokenizer file's own padding would make every piece look as long as the window.
    tokenizer = without_limits(tokenizer_json.read_text("utf-8"))
    return TextSplitter.from_huggingface_tokenizer_str(
        tokenizer, args.max_tokens, overlap=args.overlap_tokens
    )
