from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sources import SourceRules, read_patterns


def test_without_rules_every_source_is_allowed() -> None:
    assert SourceRules().allows("https://example.com")
    assert SourceRules().allows("")
    assert SourceRules().allows(None)


def test_an_allow_list_lets_pass_only_what_it_names() -> None:
    rules = SourceRules(allow=("manual.pdf", "https://example.com/*"))

    assert rules.allows("manual.pdf")
    assert rules.allows("https://example.com/")
    assert rules.allows("https://example.com/a/b")
    assert not rules.allows("manual.pdf.bak")
    assert not rules.allows("https://example.com")
    assert not rules.allows("see https://example.com/")
    assert not rules.allows("")


def test_a_chunk_without_a_source_passes_a_block_list_and_no_allow_list() -> None:
    assert SourceRules(block=("*",)).allows(None)
    assert not SourceRules(allow=("*",)).allows(None)
    assert not SourceRules(allow=("*",), block=("a",)).allows(None)


def test_block_goes_before_allow() -> None:
    rules = SourceRules(allow=("wiki/*", "faq"), block=("wiki/draft/*", "faq"))

    assert rules.allows("wiki/page")
    assert not rules.allows("wiki/draft/page")
    assert not rules.allows("faq")


def test_an_empty_allow_list_allows_nothing() -> None:
    rules = SourceRules(allow=())

    assert not rules.allows("a")
    assert not rules.allows(None)


def test_a_star_alone_names_every_source_that_there_is() -> None:
    assert SourceRules(allow=("*",)).allows("")
    assert not SourceRules(block=("*",)).allows("")


@pytest.mark.parametrize("source", ["A", "ab", "%", "_", "a.", "x", "*x", "**"])
def test_case_counts_and_only_a_trailing_star_is_a_wildcard(source: str) -> None:
    rules = SourceRules(allow=("a", "?", ".", "[a-z]", "a%", "_b", "*y", "%*b"))

    assert not rules.allows(source)
    assert rules.allows("*y")
    assert rules.allows("%*b")


def test_stars_before_the_last_are_text() -> None:
    assert SourceRules(allow=("a**",)).allows("a*b")
    assert not SourceRules(allow=("a**",)).allows("ab")


def test_prefixes_that_a_shorter_one_covers_are_left_out() -> None:
    patterns = read_patterns(["a*", "a!*", "ab*", "b", "abc*", "b*", "ba*", "b"])

    assert patterns.exact == {"b"}
    assert patterns.prefixes == ("a", "b")


def test_rules_are_values_that_survive_pickling() -> None:
    rules = SourceRules(allow=("a*",), block=("ab",))
    again = pickle.loads(pickle.dumps(rules))

    assert again == rules
    assert (again.allows("ac"), again.allows("ab")) == (True, False)


TEXTS = st.text("ab*", max_size=4)
ENTRIES = st.lists(TEXTS, max_size=5).map(tuple)


def named(entries: tuple[str, ...], source: str) -> bool:
    return any(
        source.startswith(entry[:-1]) if entry.endswith("*") else source == entry
        for entry in entries
    )


@given(ENTRIES | st.none(), ENTRIES, TEXTS)
def test_rules_mean_what_their_entries_say_one_by_one(
    allow: tuple[str, ...] | None, block: tuple[str, ...], source: str
) -> None:
    expected = (allow is None or named(allow, source)) and not named(block, source)

    assert SourceRules(allow, block).allows(source) == expected
