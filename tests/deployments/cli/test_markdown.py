from __future__ import annotations

import pytest

from deployments.cli.markdown import read_markdown


def parts(text: str) -> tuple[str | None, str, dict[str, object]]:
    found = read_markdown(text)
    return found["title"], found["text"], found["metadata"]


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("# Parking\n\nBehind the barn.\n", "Parking", "Behind the barn."),
        ("\n\n# Parking #\nBehind.", "Parking", "Behind."),
        ("# C#\nA language.", "C#", "A language."),
        ("Parking\n=======\n\nBehind.", "Parking", "Behind."),
        ("## Second\n\nText.", None, "## Second\n\nText."),
        ("#no\n\nText.", None, "#no\n\nText."),
        ("Text.\n\n# Later\n", None, "Text.\n\n# Later\n"),
        ("# Parking\n", None, "# Parking\n"),
        ("- a\n===\n", None, "- a\n===\n"),
        ("", None, ""),
    ],
)
def test_a_first_heading_is_the_title(text: str, title: str | None, body: str) -> None:
    assert parts(text) == (title, body, {})


def test_what_stands_between_dashes_at_the_top_is_metadata() -> None:
    text = (
        "---\ntitle: Parking\ndate: 2026-01-02\ntags: [cars, bicycles]\ndraft: no\nweight: 1.5\n"
        "author: {name: Ada}\nempty:\n7: x\n---\n\nBehind the barn.\n"
    )
    assert parts(text) == (
        "Parking",
        "\nBehind the barn.\n",
        {
            "date": "2026-01-02",
            "tags": ["cars", "bicycles"],
            "draft": "no",
            "weight": 1.5,
            "author": {"name": "Ada"},
            "7": "x",
        },
    )


def test_a_heading_that_is_not_the_title_named_at_the_top_stays() -> None:
    assert parts("---\ntitle: A\n---\n# A\n\nText.") == ("A", "Text.", {})
    assert parts("---\ntitle: A\n---\n# B\n\nText.") == ("A", "# B\n\nText.", {})
    assert parts("---\nkey: 1\n---\n# B\n\nText.") == ("B", "Text.", {"key": 1})


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule, and no metadata.\n\n---\n\nText.",
        "---\n- a\n- list\n---\nText.",
        "---\na: b: c\n---\nText.",
        "---\na: !!python/object:os.system x\n---\nText.",
        "---\nkey: 1\nText without an end.",
        "Text.\n---\nkey: 1\n---\n",
        "----\nkey: 1\n----\n",
    ],
)
def test_what_is_no_metadata_is_text(text: str) -> None:
    assert parts(text) == (None, text, {})


def test_empty_metadata_is_none() -> None:
    assert parts("---\n---\nText.") == (None, "---\n---\nText.", {})
