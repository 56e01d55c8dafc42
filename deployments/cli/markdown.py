"""The title, the metadata and the text of a Markdown file."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from deployments.cli.rows import plain_value, shown

FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
FIRST_HEADING = re.compile(
    r"#[ \t]+(?P<marked>.+?)(?:[ \t]+#+)?[ \t]*(?:\n|\Z)"
    r"|(?P<underlined>[^\s#>*+-].*)\n=+[ \t]*(?:\n|\Z)"
)


def read_markdown(text: str) -> dict[str, Any]:
    """Return the title, text and metadata of a document.

    YAML between two lines of dashes at the top is its metadata, and names its title; else a
    first-level heading at the top does. What became the title is taken out of the text, if
    anything else is left.
    """
    front, body = split_front_matter(text)
    title = shown(front.pop("title", None))
    heading, rest = split_heading(body)
    if heading is not None and rest and title in (None, heading):
        title, body = heading, rest
    return {"text": body, "title": title, "metadata": front}


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return what YAML at the top of a text holds, and the rest; what is not YAML is text."""
    found = FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    try:
        # Its own tags, which make objects, are errors to the safe loader.
        content = YAML(typ="safe", pure=True).load(found[1] or "")
    except (YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(content, dict):
        return {}, text
    plain = {str(key): plain_value(value) for key, value in content.items()}
    return {key: one for key, one in plain.items() if one is not None}, text[found.end() :]


def split_heading(text: str) -> tuple[str | None, str]:
    """Return a first-level heading at the top, and what follows it."""
    text = text.lstrip()
    found = FIRST_HEADING.match(text)
    if found is None:
        return None, text
    return (found["marked"] or found["underlined"]).strip() or None, text[found.end() :].strip()
