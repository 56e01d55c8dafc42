"""Assembling the context: numbered passages under a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.hits import Hit

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Citation:
    """Which hit stands behind a number in the context."""

    number: int
    hit_id: str
    document_id: str
    source: str | None


@dataclass(frozen=True, slots=True)
class Context:
    """The context's text, its citations, and the ids of hits that did not fit."""

    text: str
    citations: tuple[Citation, ...]
    left_out: tuple[str, ...]


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens at four characters each, the usual mean of English subwords."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def assemble(hits: Sequence[Hit], max_tokens: int) -> Context:
    """Number the hits in their order; one that does not fit is skipped and the next is tried."""
    blocks: list[str] = []
    citations: list[Citation] = []
    left_out: list[str] = []
    used = 0
    for hit in hits:
        block = f"[{len(blocks) + 1}] {hit.body}"
        cost = estimate_tokens(block)
        if used + cost > max_tokens:
            left_out.append(hit.id)
            continue
        used += cost
        blocks.append(block)
        citations.append(Citation(len(blocks), hit.id, hit.document_id, hit.source))
    return Context("\n\n".join(blocks), tuple(citations), tuple(left_out))
