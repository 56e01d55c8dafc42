from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.context import Citation, ContextPlan, assemble, estimate_tokens, from_the_edges
from pipeline.errors import Unavailable
from tests.fakes import hit


class WordCounter:
    """Counts words, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def __call__(self, texts: Sequence[str]) -> list[int]:
        self.asked.append(list(texts))
        return [len(text.split()) for text in texts]


async def failing(texts: Sequence[str]) -> list[int]:
    raise Unavailable("the scorer is down")


async def test_hits_are_numbered_and_cited_in_order() -> None:
    first = replace(hit("a"), title="T", source="s", origin="corpus:other")
    context = await assemble([first, hit("b")], ContextPlan(100), None)
    assert context.text == "[1] T\na\n\n[2] b"
    assert context.citations == (
        Citation(1, "a", "a", "s", "corpus:other"),
        Citation(2, "b", "b", None, None),
    )
    assert (context.left_out, context.tokens, context.counted_by) == ((), 4, "estimate")


async def test_a_hit_that_does_not_fit_is_skipped_and_the_next_is_tried() -> None:
    hits = [hit("aa"), replace(hit("long"), text="x" * 400), hit("bb")]
    context = await assemble(hits, ContextPlan(10), None)
    assert [citation.hit_id for citation in context.citations] == ["aa", "bb"]
    assert context.text == "[1] aa\n\n[2] bb"
    assert context.left_out == ("long",)


async def test_the_first_hit_may_be_the_one_that_does_not_fit() -> None:
    hits = [replace(hit("long"), text="x " * 400), hit("bb")]
    context = await assemble(hits, ContextPlan(10), WordCounter())
    assert (context.text, context.left_out, context.tokens) == ("[1] bb", ("long",), 2)


async def test_a_budget_that_is_met_exactly_is_enough() -> None:
    context = await assemble([hit("a"), hit("b")], ContextPlan(4), WordCounter())
    assert (context.left_out, context.tokens) == ((), 4)
    context = await assemble([hit("a"), hit("b")], ContextPlan(3), WordCounter())
    assert (context.left_out, context.tokens) == (("b",), 2)


async def test_blocks_are_counted_in_one_call_with_number_and_delimiter() -> None:
    counter = WordCounter()
    plan = ContextPlan(100, delimiter="\n---\n")
    context = await assemble([hit("a"), replace(hit("b"), title="T")], plan, counter)
    assert counter.asked == [["[1] a", "\n---\n[2] T\nb"]]
    assert context.text == "[1] a\n---\n[2] T\nb"
    assert (context.tokens, context.counted_by) == (6, "scorer")


async def test_where_counting_fails_all_blocks_are_estimated() -> None:
    context = await assemble([hit("aaaa"), hit("bbbb")], ContextPlan(4), failing)
    assert (context.text, context.tokens, context.counted_by) == ("[1] aaaa", 2, "estimate")
    assert context.left_out == ("bbbb",)


async def test_without_hits_nothing_is_counted_and_nothing_has_failed() -> None:
    counter = WordCounter()
    context = await assemble([], ContextPlan(), counter)
    assert (context.text, context.tokens, context.counted_by) == ("", 0, "scorer")
    assert counter.asked == []


async def test_a_refined_text_stands_below_its_title_in_place_of_the_text() -> None:
    hits = [
        replace(hit("a"), title="T", refined="core"),
        replace(hit("b"), title="U", refined=""),
        replace(hit("c"), refined=None),
    ]
    context = await assemble(hits, ContextPlan(), None)
    assert context.text == "[1] T\ncore\n\n[2] c"
    assert context.left_out == ("b",)


async def test_what_is_left_out_is_listed_in_the_order_of_hits() -> None:
    hits = [replace(hit("long"), text="x" * 90), replace(hit("empty"), refined=""), hit("a")]
    context = await assemble(hits, ContextPlan(10), None)
    assert context.left_out == ("long", "empty")


async def test_edges_place_the_best_first_and_the_second_best_last() -> None:
    hits = [hit(name) for name in "abcde"]
    context = await assemble(hits, ContextPlan(order="edges", delimiter=" "), None)
    assert context.text == "[1] a [3] c [5] e [4] d [2] b"
    assert [citation.hit_id for citation in context.citations] == list("abcde")


@given(st.lists(st.text(), max_size=9))
def test_edges_keep_every_block(blocks: list[str]) -> None:
    assert sorted(from_the_edges(blocks)) == sorted(blocks)


def test_tokens_are_estimated_upwards() -> None:
    assert [estimate_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
