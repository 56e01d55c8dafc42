from __future__ import annotations

from dataclasses import replace

from pipeline.context import Citation, assemble, estimate_tokens
from tests.fakes import hit


def test_hits_are_numbered_and_cited_in_order() -> None:
    context = assemble([replace(hit("a"), title="T", source="s"), hit("b")], 100)
    assert context.text == "[1] T\na\n\n[2] b"
    assert context.citations == (Citation(1, "a", "a", "s"), Citation(2, "b", "b", None))


def test_a_hit_that_does_not_fit_is_skipped_and_the_next_is_tried() -> None:
    hits = [hit("aa"), replace(hit("long"), text="x" * 400), hit("bb")]
    context = assemble(hits, 10)
    assert [citation.hit_id for citation in context.citations] == ["aa", "bb"]
    assert context.text == "[1] aa\n\n[2] bb"
    assert context.left_out == ("long",)


def test_tokens_are_estimated_upwards() -> None:
    assert [estimate_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
