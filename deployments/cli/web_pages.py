"""The title and the main text of a web page."""

from __future__ import annotations

import codecs
import re
import warnings
from collections.abc import Iterable

from bs4 import BeautifulSoup, Tag, XMLParsedAsHTMLWarning
from bs4.dammit import EncodingDetector
from markdownify import MarkdownConverter

from deployments.cli.encodings import UTF_8, mark_of
from deployments.cli.pieces import UnreadableFile

# What nobody reads as text, and what is the same on every page.
UNSEEN = "script, style, noscript, template, svg, iframe, canvas, object, [hidden]"
UNREAD = "button, input, select, textarea, dialog, nav, aside, [aria-hidden=true]"
OF_THE_SITE = ("header", "footer")
LINE_ENDS = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")
LINE_END = re.compile(r"[ \t]+\n")

# Headings, lists, tables and code as Markdown; links and emphasis as their words alone, for an
# address is no text that anybody searches.
TO_MARKDOWN = MarkdownConverter(
    heading_style="atx",
    bullets="-",
    strip=["a", "b", "em", "i", "img", "strong", "u"],
    escape_asterisks=False,
    escape_underscores=False,
    escape_misc=False,
)


def read_page(page: bytes, encoding: str | None) -> tuple[str | None, str]:
    """Return (title, text) of a page; its text is its main part, as Markdown.

    A page says itself how it is encoded, unless the user does. Its title is its only first-level
    heading, which is then no part of the text, else what its head says. Raises UnreadableFile if
    it cannot be decoded or is nested too deep.
    """
    soup = parse(decode(page, encoding))
    main = main_part(soup)
    headings = main.find_all("h1")
    heading = headings[0] if len(headings) == 1 else None
    title = words_of(heading) or words_of(soup.title)
    if heading is not None and words_of(main) != words_of(heading):
        heading.extract()
    return title or None, text_of(main)


def decode(page: bytes, encoding: str | None) -> str:
    """Decode by the page's mark, the encoding given or the page's own word, else as UTF-8."""
    declared = EncodingDetector.find_declared_encoding(page, is_html=True)
    name = mark_of(page) or encoding or declared or UTF_8
    try:
        return page.decode(as_browsers_do(name))
    except (LookupError, UnicodeDecodeError):
        raise UnreadableFile("it is not in the encoding that it names; see --encoding") from None


def as_browsers_do(encoding: str) -> str:
    """Pages that name one of these are written in the larger one that has it inside."""
    return "cp1252" if codecs.lookup(encoding).name in ("ascii", "iso8859-1") else encoding


def parse(page: str) -> BeautifulSoup:
    with warnings.catch_warnings():
        # A page in XHTML is one to us too.
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        return BeautifulSoup(page, "lxml")


def main_part(soup: BeautifulSoup) -> Tag:
    """Return the element that says it is the main one, else the body; without what is around."""
    main = soup.select_one("main, [role=main]") or only_article(soup)
    if main is None:
        main = soup.body or soup
        around = main.find_all(OF_THE_SITE)
        remove(tag for tag in around if tag.find_parent(["article", "section"]) is None)
    remove(main.select(f"{UNSEEN}, {UNREAD}"))
    return main


def only_article(soup: BeautifulSoup) -> Tag | None:
    articles = soup.find_all("article")
    return articles[0] if len(articles) == 1 else None


def remove(tags: Iterable[Tag]) -> None:
    for tag in tags:
        tag.extract()  # not destroyed: one may stand in another


def words_of(tag: Tag | None) -> str:
    return "" if tag is None else " ".join(tag.get_text(" ").split())


def text_of(main: Tag) -> str:
    try:
        markdown = TO_MARKDOWN.convert_soup(main)
    except RecursionError:
        raise UnreadableFile("its elements are nested too deep") from None
    return LINE_END.sub("\n", LINE_ENDS.sub("\n\n", markdown)).strip()
