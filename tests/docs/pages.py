"""Reading our own pages: their tables, code blocks and sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it stands, its language and what is in it."""

    page: str
    language: str
    text: str


def blocks(language: str) -> list[Block]:
    """Return the blocks of one language on all pages."""
    return [block for page in PAGES for block in blocks_in(page.read_text(), language, page.name)]


def blocks_in(text: str, language: str, page: str = "") -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        if found[1] == language:
            yield Block(page, found[1], found[2])


def section(text: str, heading: str) -> str:
    """Return what stands below a heading of the second level, up to the next of them."""
    _, _, rest = text.partition(f"\n## {heading}\n")
    assert rest, f"no section {heading}"
    return rest.partition("\n## ")[0]


def table(text: str, *header: str) -> list[list[str]]:
    """Return the rows below this very header; code marks are taken off."""
    for found in TABLE.finditer(text):
        first, _, *rows = [cells(line) for line in found[0].splitlines()]
        if first == list(header):
            return rows
    raise AssertionError(f"no table with the columns {', '.join(header)}")


def cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
