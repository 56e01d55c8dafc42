"""Assembling the context: numbered passages under a token budget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from pipeline.documents import join_body
from pipeline.errors import OnepassError
from pipeline.hits import Hit, stable_key

CHARACTERS_PER_TOKEN = 4

# Counts the tokens of texts, one number a text, in their order; raises OnepassError.
CountTokens = Callable[[Sequence[str]], Awaitable[Sequence[int]]]
CountedBy = Literal["scorer", "estimate"]


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """How to assemble: the budget, the order of the passages and what stands between them."""

    max_tokens: int = 4000
    order: Literal["rank", "edges"] = "rank"
    delimiter: str = "\n\n"


@dataclass(frozen=True, slots=True)
class Citation:
    """Which hit stands behind a number in the context, and where it came from."""

    number: int
    hit_id: str
    document_id: str
    source: str | None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The context's text, its citations by number, and the ids of hits that are not in it.

    `tokens` is what was spent of the budget, `counted_by` whether the scorer's tokenizer counted.
    """

    text: str
    citations: tuple[Citation, ...]
    left_out: tuple[str, ...]
    tokens: int
    counted_by: CountedBy


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens at four characters each, the usual mean of English subwords."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


async def assemble(hits: Sequence[Hit], plan: ContextPlan, count: CountTokens | None) -> Context:
    """Number the hits in their order; one that does not fit is skipped and the next is tried.

    A refined hit shows its title and what refinement left; one left with nothing is left out.
    Blocks are counted in one call, with the delimiter before them and the highest number that
    they can get. Where counting fails, or `count` is None, all are estimated.
    """
    shown = [hit for hit in hits if hit.refined != ""]
    # Unskipped, the first block has no delimiter before it.
    blocks = [
        f"{plan.delimiter if number > 1 else ''}{block_of(number, hit)}"
        for number, hit in enumerate(shown, start=1)
    ]
    costs, counted_by = await count_blocks(blocks, count)
    cited: list[Hit] = []
    used = 0
    for hit, cost in zip(shown, costs, strict=True):
        if used + cost <= plan.max_tokens:
            used += cost
            cited.append(hit)
    numbered = list(enumerate(cited, start=1))
    texts = [block_of(number, hit) for number, hit in numbered]
    inside = {stable_key(hit) for hit in cited}
    return Context(
        plan.delimiter.join(texts if plan.order == "rank" else from_the_edges(texts)),
        tuple(
            Citation(number, hit.id, hit.document_id, hit.source, hit.origin)
            for number, hit in numbered
        ),
        tuple(hit.id for hit in hits if stable_key(hit) not in inside),
        used,
        counted_by,
    )


async def count_blocks(
    blocks: Sequence[str], count: CountTokens | None
) -> tuple[Sequence[int], CountedBy]:
    """Return the tokens of each block, all by one method."""
    if count is not None:
        with suppress(OnepassError):
            return (await count(blocks) if blocks else ()), "scorer"
    return [estimate_tokens(block) for block in blocks], "estimate"


def block_of(number: int, hit: Hit) -> str:
    body = hit.body if hit.refined is None else join_body(hit.title, hit.refined)
    return f"[{number}] {body}"


def from_the_edges(blocks: Sequence[str]) -> list[str]:
    """Place the best first, the second best last, and so on inwards.

    Models use the middle of a long context least (Liu et al., "Lost in the Middle", 2023).
    """
    return [*blocks[0::2], *reversed(blocks[1::2])]
