"""A web search: texts to be scored come out, and nothing else of its answer does."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.provider_options import WebSearchArgs
from deployments.providers.http import Http
from deployments.providers.web import WebSearch
from pipeline.documents import Chunk
from pipeline.errors import Unavailable
from pipeline.stamps import digest
from tests.deployments.providers.service import Reply, Service

URL = "https://example.org/a"


async def found(
    service: Service, http: Http, *results: Any, top_k: int = 10, **more: Any
) -> tuple[Chunk, ...]:
    service.says(Reply({"results": list(results)}))
    args = WebSearchArgs(base_url=f"{service.url}/search", **more)
    return await WebSearch(args, http).search("q", top_k, 30)


async def texts(service: Service, http: Http, *results: Any, **more: Any) -> list[str]:
    return [chunk.text for chunk in await found(service, http, *results, **more)]


async def test_results_become_chunks_in_their_order(service: Service, http: Http) -> None:
    first = {"text": "one", "title": "A", "url": URL}
    identity = f"http:{digest('', 'two')}"
    assert await found(service, http, first, {"text": "two"}) == (
        Chunk(f"http:{digest(URL, 'one')}", URL, 0, "one", title="A", source=URL, metadata={}),
        Chunk(identity, identity, 0, "two", title=None, source=None, metadata={}),
    )
    (asked,) = service.asked
    assert (asked.path, asked.body) == ("/search", {"query": "q", "top_k": 10})


async def test_nothing_else_that_is_answered_is_taken(service: Service, http: Http) -> None:
    stray = {
        "text": "one",
        "id": "guide#3",
        "score": 99,
        "metadata": {"_reranked": "x", "_crossEncoderScore": 99},
        "_crossEncoderScore": 99,
    }
    identity = f"http:{digest('', 'one')}"
    assert await found(service, http, stray) == (Chunk(identity, identity, 0, "one"),)


async def test_what_has_no_text_is_skipped(service: Service, http: Http) -> None:
    odd = [{"text": None}, {"text": 7}, {"text": " \n"}, {"title": "A"}, "text", None, {}]
    assert await texts(service, http, *odd, {"text": "one"}) == ["one"]


async def test_equal_texts_count_once(service: Service, http: Http) -> None:
    results = [{"text": "one", "url": URL}, {"text": "one", "url": f"{URL}/b"}, {"text": "two"}]
    chunks = await found(service, http, *results, top_k=2)
    assert [(chunk.text, chunk.source) for chunk in chunks] == [("one", URL), ("two", None)]


@pytest.mark.parametrize(("top_k", "max_results", "taken"), [(2, 3, 2), (9, 3, 3)])
async def test_no_more_results_are_asked_for_or_taken_than_allowed(
    service: Service, http: Http, top_k: int, max_results: int, taken: int
) -> None:
    results = [{"text": str(number)} for number in range(5)]
    got = await texts(service, http, *results, top_k=top_k, max_results=max_results)
    assert got == [str(number) for number in range(taken)]
    assert service.bodies[0]["top_k"] == taken


async def test_a_long_text_is_cut(service: Service, http: Http) -> None:
    long = {"text": "x" * 101}
    assert await texts(service, http, long, max_text_chars=100) == ["x" * 100]


async def test_a_long_answer_is_refused(service: Service, http: Http) -> None:
    with pytest.raises(Unavailable, match=r"^web search answered with more than 1024 bytes$"):
        await found(service, http, {"text": "x" * 1024}, max_bytes=1024)


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("A\nguide\x1b[31m\u2028 to x", "A guide [31m to x"),
        ("Größe", "Größe"),
        ("\x00", None),
        (7, None),
        ("x" * 501, "x" * 500),
    ],
)
async def test_a_title_is_one_clean_line(
    service: Service, http: Http, title: Any, shown: str | None
) -> None:
    (chunk,) = await found(service, http, {"text": "one", "title": title})
    assert chunk.title == shown


@pytest.mark.parametrize(
    ("url", "source"),
    [
        (f" {URL}\r\n", URL),
        ("https://example.org/\x00b", "https://example.org/b"),
        ("javascript:alert(1)", None),
        ("java\nscript:alert(1)", None),
        (f"https://example.org/{'x' * 2048}", None),
        (["https://example.org"], None),
    ],
)
async def test_a_source_is_a_web_address_or_none(
    service: Service, http: Http, url: Any, source: str | None
) -> None:
    (chunk,) = await found(service, http, {"text": "one", "url": url})
    assert chunk.source == source
    assert chunk.document_id == (source or chunk.id)


async def test_a_lone_surrogate_does_not_get_in(service: Service, http: Http) -> None:
    assert await texts(service, http, {"text": "a\ud800b"}) == ["a?b"]


@pytest.mark.parametrize("answer", [{}, [], None, {"results": None}, {"results": {"text": "a"}}])
async def test_an_answer_of_another_shape_is_none(
    service: Service, http: Http, answer: Any
) -> None:
    service.says(Reply(answer))
    search = WebSearch(WebSearchArgs(base_url=service.url), http)
    with pytest.raises(Unavailable, match=r"^web search: the answer has no list of results$"):
        await search.search("q", 3, 30)
