"""A search over HTTP that correction may fall back to; docs/providers.md has its contract."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from deployments.provider_options import WebSearchArgs
from deployments.providers.http import Http
from pipeline.documents import Chunk
from pipeline.errors import Unavailable
from pipeline.stamps import digest

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# A title is scored with its text; no browser sends a longer URL with care.
TITLE_CHARS = 500
URL_CHARS = 2048


class WebSearch:
    """Asks one search service, and trusts its answer no further than as text to be scored."""

    def __init__(self, args: WebSearchArgs, http: Http) -> None:
        self.args = args
        self.http = http

    async def search(self, query: str, top_k: int, timeout_s: float) -> tuple[Chunk, ...]:
        """Return the results in the service's order, at most `top_k`, equal texts once.

        Raises Unavailable for an answer of another shape, and whatever Http.post raises.
        """
        limit = min(top_k, self.args.max_results)
        body = {"query": query, "top_k": limit}
        answer = await self.http.post(self.args, "", body, timeout_s, self.args.max_bytes)
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise Unavailable(f"{self.args.label}: the answer has no list of results")
        chunks = read_chunks(results, self.args.max_text_chars)
        return tuple(islice(without_repeats(chunks), limit))


def read_chunks(results: list[object], max_text_chars: int) -> Iterator[Chunk]:
    """Read what has a text; nothing else than text, title and URL is taken."""
    for result in results:
        if isinstance(result, dict):
            text = encodable(result.get("text"))[:max_text_chars]
            if text.strip():
                yield web_chunk(
                    text, clean_title(result.get("title")), clean_url(result.get("url"))
                )


def web_chunk(text: str, title: str | None, url: str | None) -> Chunk:
    identity = f"http:{digest(url or '', text)}"
    return Chunk(identity, url or identity, 0, text, title=title, source=url)


def without_repeats(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    seen: set[str] = set()
    for chunk in chunks:
        if chunk.text not in seen:
            seen.add(chunk.text)
            yield chunk


def clean_title(raw: object) -> str | None:
    """Return a title in one line, or None."""
    return " ".join(CONTROL.sub(" ", encodable(raw)).split())[:TITLE_CHARS] or None


def clean_url(raw: object) -> str | None:
    """Return an http or https URL without control characters, or None: it becomes a link."""
    url = CONTROL.sub("", encodable(raw)).strip()
    is_web = url.lower().startswith(("http://", "https://"))
    return url if is_web and len(url) <= URL_CHARS else None


def encodable(raw: object) -> str:
    """Return a string that UTF-8 can carry, "" for what is no string."""
    return raw.encode("utf-8", "replace").decode() if isinstance(raw, str) else ""
