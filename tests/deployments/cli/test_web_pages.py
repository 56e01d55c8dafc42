from __future__ import annotations

import pytest

from deployments.cli.pieces import UnreadableFile
from deployments.cli.web_pages import read_page

PAGE = """<!doctype html>
<html><head><title>Parking - The Observatory</title><script>track()</script></head>
<body>
<header><h1>The Observatory</h1><nav>Home About</nav></header>
<main>
  <nav>You are here</nav>
  <h1>Parking &amp; more</h1>
  <p>Behind the <a href="/barn">barn</a>, <b>free</b>.<br>Snake_case and *stars*.
  <p hidden>Not this.
  <ul><li>one<li>two<ol><li>deep</ol></ul>
  <table><tr><th>Car<th>Price<tr><td>small<td>1</table>
  <pre><code class="language-py">def f():
    return 1</code></pre>
  <h2>Bicycles</h2><style>x{}</style>
  <form><p>Anywhere.</p><input value="x"><button>Send</button></form>
  <img src="a.png" alt="A barn"><aside>See also</aside>
</main>
<footer>Imprint</footer>
</body></html>"""

TEXT = """Behind the barn, free.
Snake_case and *stars*.

- one
- two
  1. deep

| Car | Price |
| --- | --- |
| small | 1 |

```
def f():
    return 1
```

## Bicycles

Anywhere."""


def page(body: str, head: str = "") -> tuple[str | None, str]:
    return read_page(f"<html><head>{head}</head><body>{body}</body></html>".encode(), None)


def test_the_main_part_of_a_page_is_its_text_as_markdown() -> None:
    assert read_page(PAGE.encode(), None) == ("Parking & more", TEXT)


@pytest.mark.parametrize(
    "body",
    [
        "<div><div role=main><h1>T</h1><p>Text.</div><p>Else.</div>",
        "<article><h1>T</h1><p>Text.</article><p>Else.",
        "<header>Site</header><h1>T</h1><p>Text.<footer>Else</footer>",
    ],
)
def test_the_main_part_is_named_by_its_role_or_is_the_article_or_the_body(body: str) -> None:
    assert page(body) == ("T", "Text.")


def test_of_several_articles_none_is_the_main_part() -> None:
    assert page("<article>One.</article><article>Two.</article>") == (None, "One.\n\nTwo.")


def test_without_one_heading_the_title_is_that_of_the_head() -> None:
    head = "<title> A\n title </title>"
    assert page("<p>Text.", head) == ("A title", "Text.")
    assert page("<h1>One</h1><p>a<h1>Two</h1><p>b", head) == ("A title", "# One\n\na\n\n# Two\n\nb")


def test_a_page_that_is_only_a_heading_keeps_it_as_text() -> None:
    assert page("<h1>Closed</h1>") == ("Closed", "# Closed")


def test_a_page_without_text_has_none() -> None:
    assert page("<script>x()</script>") == (None, "")
    assert read_page(b" ", None) == (None, "")


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("<p>é漢".encode(), None),
        ("<p>é漢".encode("utf-16"), None),
        ("<meta charset=gb18030><p>é漢".encode("gb18030"), None),
        ("<?xml version='1.0' encoding='gb18030'?><html><p>é漢".encode("gb18030"), None),
        ("<p>é漢".encode("gb18030"), "gb18030"),
        ("<meta charset=utf-8><p>é漢".encode("gb18030"), "gb18030"),
    ],
)
def test_a_page_is_decoded_as_it_says_or_as_is_said_of_it(
    content: bytes, encoding: str | None
) -> None:
    assert read_page(content, encoding) == (None, "é漢")


def test_latin_1_is_what_browsers_take_it_for() -> None:
    assert read_page(b"<meta charset=iso-8859-1><p>5 \x80", None) == (None, "5 €")


@pytest.mark.parametrize(
    "content", [b"<p>\xe9", b"<meta charset=ascii><p>\x81", b"<meta charset=x>"]
)
def test_a_page_in_another_encoding_than_it_names_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableFile, match="not in the encoding that it names"):
        read_page(content, None)


def test_a_page_that_is_nested_too_deep_is_refused() -> None:
    assert read_page(b"<div>" * 80 + b"x", None) == (None, "x")
    with pytest.raises(UnreadableFile, match="nested too deep"):
        read_page(b"<div>" * 5_000 + b"x", None)


def test_headers_of_articles_are_theirs_and_not_the_sites() -> None:
    one = "<article><header><h2>One</h2></header>a</article>"
    two = "<section><h2>Two</h2>b<footer>c</footer></section>"
    assert page(f"<header>Site</header>{one}{two}<article>d</article>")[1] == (
        "## One\n\na\n\n## Two\n\nbc\n\nd"
    )
