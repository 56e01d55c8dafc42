"""Expansion: other wordings of the query, so that retrieval misses less."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pipeline.errors import OnepassError
from pipeline.legs import Variant, VariantKind
from pipeline.prompts import (
    Messages,
    hyde_prompt,
    multi_query_prompt,
    rewrite_prompt,
    step_back_prompt,
)
from pipeline.prompts import Turn as Turn

MAX_DOCUMENT_CHARACTERS = 2_000
MAX_QUESTION_CHARACTERS = 500

# What models put before the questions of a list: a bullet or a number, and never a decimal's or
# a time's digits.
LIST_MARK = re.compile(r"(?:[-*–—](?=\s)|•|\(?\d{1,2}(?:[.):](?!\d)|、))\s*")  # noqa: RUF001
ANNOUNCEMENT = (":", "：")  # noqa: RUF001
QUOTES = ('""', "''", "``", "“”", "„“", "‘’", "«»", "「」")  # noqa: RUF001

# Completes chat messages; raises OnepassError where it cannot.
Generate = Callable[[Messages], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class ExpansionPlan:
    """Which variants to make. `hyde` and `multi_query` say how many; {query} in a template stands
    for the query; `weights` go by kind, 1 where none is named. `drift` is checked by the caller,
    once the variants have vectors.
    """

    rewrite: bool = True
    templates: tuple[str, ...] = ()
    hyde: int = 0
    step_back: bool = False
    multi_query: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    drift: Literal["off", "observe", "drop"] = "observe"
    drift_threshold: float = 0.7
    timeout_s: float = 3.0


@dataclass(frozen=True, slots=True)
class Expansion:
    """The variants besides the original, numbered from 1, and what failed, a line each.

    `query` is the one that the cross-encoder sees: the rewritten one, else the original.
    """

    query: str
    variants: tuple[Variant, ...]
    failures: tuple[str, ...] = ()


class Ask(NamedTuple):
    """One completion to ask for, and how many variants to read from it."""

    kind: VariantKind
    messages: Messages
    most: int = 1


class Draft(NamedTuple):
    """A variant that has no number yet."""

    kind: VariantKind
    text: str


async def expand(
    plan: ExpansionPlan, query: str, history: Sequence[Turn], generate: Generate | None
) -> Expansion:
    """Make the variants: the rewriting first, then all others in parallel from what it gave.

    Without `generate` there are only templates. After `timeout_s` in all, what is there is kept;
    what failed or is late is named in `failures` and never raised. Every call has ended when
    this returns, and when it is cancelled.
    """
    deadline = asyncio.get_running_loop().time() + plan.timeout_s
    asks = [Ask("rewrite", rewrite_prompt(query, history))] if plan.rewrite and history else []
    rewritten, failures = await answer(asks, generate, deadline)
    standalone = next((draft.text for draft in distinct(query, rewritten)), query)
    drafts = rewritten + [
        Draft("template", template.replace("{query}", standalone)) for template in plan.templates
    ]
    answered, failed = await answer(asks_for(plan, standalone), generate, deadline)
    variants = tuple(
        Variant(number, draft.kind, draft.text, plan.weights.get(draft.kind, 1.0))
        for number, draft in enumerate(distinct(query, drafts + answered), start=1)
    )
    return Expansion(standalone, variants, tuple(failures + failed))


def asks_for(plan: ExpansionPlan, query: str) -> list[Ask]:
    """Name what is asked for in parallel.

    Hypothetical documents come last: of two like texts the first stays, and they go to one leg.
    """
    asks = [Ask("step_back", step_back_prompt(query))] if plan.step_back else []
    if plan.multi_query:
        prompt = multi_query_prompt(query, plan.multi_query)
        asks.append(Ask("multi_query", prompt, plan.multi_query))
    return asks + [Ask("hyde", hyde_prompt(query, n)) for n in range(1, plan.hyde + 1)]


async def answer(
    asks: Sequence[Ask], generate: Generate | None, deadline: float
) -> tuple[list[Draft], list[str]]:
    """Return the drafts and the failures of all that was asked for, each in the order of `asks`."""
    if generate is None or not asks:
        return [], []
    drafts: list[Draft] = []
    failures: list[str] = []
    for ask, outcome in zip(asks, await complete_all(asks, generate, deadline), strict=True):
        texts = read_answer(ask, outcome) if isinstance(outcome, str) else []
        drafts += [Draft(ask.kind, text) for text in texts]
        if not texts:
            failures.append(f"{ask.kind}: {reason(outcome)}")
    return drafts, failures


async def complete_all(
    asks: Sequence[Ask], generate: Generate, deadline: float
) -> list[str | BaseException]:
    """Return each completion, its error, or CancelledError if it was not there by `deadline`."""

    async def complete(messages: Messages) -> str:
        return await generate(messages)

    tasks = [asyncio.create_task(complete(ask.messages)) for ask in asks]
    try:
        left_s = deadline - asyncio.get_running_loop().time()
        await asyncio.wait(tasks, timeout=max(0.0, left_s))
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    return outcomes


def reason(outcome: str | BaseException) -> str:
    """Say why there is no variant; what is not an error of ours is a bug, and raised."""
    if isinstance(outcome, str):
        return "an empty answer"
    if isinstance(outcome, asyncio.CancelledError):
        return "timed out"
    if isinstance(outcome, OnepassError):
        return outcome.message
    raise outcome


def read_answer(ask: Ask, text: str) -> list[str]:
    """Return the variants that a completion holds, cleaned, at most as many as asked for."""
    if ask.kind == "hyde":
        texts = [unquoted(text)[:MAX_DOCUMENT_CHARACTERS].rstrip()]
    elif ask.kind == "multi_query":
        lines = [line.strip() for line in text.splitlines()]
        questions = [line for line in lines if not line.endswith(ANNOUNCEMENT)]
        texts = [question(LIST_MARK.sub("", line, count=1)) for line in questions]
    else:
        texts = [question(text)]
    return [text for text in texts if text][: ask.most]


def question(text: str) -> str:
    """Return a question on one line, without quotes around it, bounded in length."""
    return unquoted(" ".join(text.split()))[:MAX_QUESTION_CHARACTERS].rstrip()


def unquoted(text: str) -> str:
    """Strip whitespace, and quotes if one pair stands around the whole text."""
    stripped = text.strip()
    inner = stripped[1:-1]
    wrapped = stripped[:1] + stripped[-1:] in QUOTES
    # A text with such quotes inside too quotes parts of itself.
    if len(stripped) < 2 or not wrapped or any(c in inner for c in (stripped[0], stripped[-1])):
        return stripped
    return inner.strip()


def distinct(query: str, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts that repeat neither the query nor one before, by case and spacing."""
    seen = {spelling(query)}
    kept: list[Draft] = []
    for draft in drafts:
        if (key := spelling(draft.text)) not in seen:
            seen.add(key)
            kept.append(draft)
    return kept


def spelling(text: str) -> str:
    return " ".join(text.split()).casefold()
