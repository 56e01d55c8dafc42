from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deployments.headings import Heading, find_headings, headings_in, mark_headings

TEXT = "# One\nfirst\n\n\n## Two\nsecond"


def test_headings_are_found_with_their_levels() -> None:
    assert find_headings(TEXT) == [Heading(0, 1), Heading(14, 2)]
    assert find_headings("   ###### Low\n#no\n####### no\n    # no\nno # no") == [Heading(0, 6)]


def test_a_comment_in_a_block_of_code_is_no_heading() -> None:
    text = "# a\n```sh\n# no\n~~~\n# no\n```\n# b\n~~~~\n# no\n~~~\n# no\n~~~~\n# c"
    assert [text[one.start + 2] for one in find_headings(text)] == ["a", "b", "c"]


def test_headings_of_a_part_are_told_by_where_they_begin_in_it() -> None:
    headings = find_headings(TEXT)
    assert headings_in(headings, 1, 14) == []
    assert headings_in(headings, 10, 15) == [Heading(4, 2)]
    assert headings_in(headings, 0, 99) == headings


def test_the_highest_heading_gets_the_most_line_ends_and_each_more_than_the_text_has() -> None:
    marked = mark_headings(TEXT, find_headings(TEXT))
    assert marked.text == "\n" * 9 + "# One\nfirst" + "\n" * (3 + 8) + "## Two\nsecond"


def test_a_text_without_headings_stays_as_it_is() -> None:
    assert mark_headings("a\n\nb", []).text == "a\n\nb"


@given(st.lists(st.sampled_from(["# a\n", "### b\n", "text\n", "\n", "```\n"]), max_size=30))
def test_every_place_leads_back_to_its_own_character(lines: list[str]) -> None:
    text = "".join(lines)
    marked = mark_headings(text, find_headings(text))
    kept = [
        marked.original(place)
        for place, character in enumerate(marked.text)
        if not character.isspace()
    ]
    assert kept == [place for place, character in enumerate(text) if not character.isspace()]
