"""A small client of the HTTP API, whose errors are one line for a person."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import httpx

# An ingest of long documents embeds for minutes on a small machine.
TIMEOUT_S = 600.0
# How often a request is sent again that the server was too busy for.
OVERLOAD_TRIES = 30
# An ingest waits rather than lose its place: a day at the server's five seconds.
INGEST_TRIES = 17_280
PAGE_ITEMS = 1000
DEFAULT_URL = "http://127.0.0.1:8000"


class ClientError(Exception):
    """The server could not be reached (`status` None), or refused; the message says why."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_refusal(self) -> bool:
        """Whether the fault lies in what was sent."""
        return self.status in (400, 413, 422)


class Answer(dict[str, Any]):
    """The fields of a server's answer; one that is not there shows that it is no Onepass."""

    def __init__(self, url: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.url = url

    def __missing__(self, field: str) -> Any:
        raise no_onepass(self.url)


class Client:
    """Talks to one server, with the key in ONEPASS_API_KEY; use it as a context manager."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        timeout = httpx.Timeout(TIMEOUT_S, connect=5.0)
        headers = key_header(os.environ.get("ONEPASS_API_KEY", ""))
        try:
            self._http = httpx.Client(base_url=self.url, timeout=timeout, headers=headers)
        except httpx.InvalidURL as error:
            raise ClientError(f"{self.url} is no URL: {error}") from None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def search(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", "/v1/search", request)

    def put(self, corpus: str, documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Store documents; one result each, in order."""
        body = {"documents": documents}
        answer = self._send("PUT", f"{corpus_path(corpus)}/documents", body, INGEST_TRIES)
        results: list[dict[str, Any]] = answer["documents"]
        return results

    def corpora(self) -> Iterator[dict[str, Any]]:
        """Yield the corpora with their counts, by name."""
        yield from self._pages("/v1/corpora")

    def corpus(self, corpus: str) -> dict[str, Any]:
        return self._send("GET", corpus_path(corpus))

    def drop(self, corpus: str) -> None:
        self._send("DELETE", corpus_path(corpus))

    def documents(self, corpus: str) -> Iterator[dict[str, Any]]:
        """Yield the ids and titles of a corpus's documents, by id."""
        yield from self._pages(f"{corpus_path(corpus)}/documents")

    def document(self, corpus: str, document_id: str) -> dict[str, Any]:
        return self._send("GET", document_path(corpus, document_id))

    def delete(self, corpus: str, document_id: str) -> None:
        self._send("DELETE", document_path(corpus, document_id))

    def purge(self, before: str, dry_run: bool) -> dict[str, Any]:
        return self._send("POST", "/v1/admin/purge", {"before": before, "dry_run": dry_run})

    def compact(self) -> dict[str, Any]:
        return self._send("POST", "/v1/admin/compact", {})

    def served_model(self) -> str | None:
        """Return the scorer's fingerprint, None where there is no scorer."""
        model: str | None = self._send("GET", "/v1/status")["model"]
        return model

    def judged_scores(self, corpus: str) -> Iterator[dict[str, Any]]:
        """Yield the scores of a corpus that feedback has judged, one page after another."""
        yield from self._pages("/v1/reports/judged-scores", corpus=corpus)

    def report(
        self, name: str, page_items: int, window: Mapping[str, str | None]
    ) -> Iterator[dict[str, Any]]:
        """Yield a report's rows, one page after another; what the window leaves open is None."""
        given = {bound: value for bound, value in window.items() if value is not None}
        yield from self._pages(f"/v1/reports/{name}", page_items, **given)

    def _pages(
        self, path: str, page_items: int = PAGE_ITEMS, **query: str
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of a list to its end."""
        token = None
        while True:
            asked = {**query, "limit": page_items} | ({"next": token} if token else {})
            page = self._send("GET", f"{path}?{urlencode(asked)}")
            yield from page["items"]
            token = page["next"]
            if token is None:
                return

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        tries: int = OVERLOAD_TRIES,
    ) -> dict[str, Any]:
        # ASCII escapes carry any string, a lone surrogate too: the server says what it is.
        content = None if body is None else json.dumps(body)
        for _ in range(tries):
            response = self._request(method, path, content)
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
                break
            time.sleep(retry_after_s(response))
        if response.is_error:
            raise ClientError(in_one_line(response), response.status_code)
        return read_answer(response, self.url)

    def _request(self, method: str, path: str, content: str | None) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        try:
            return self._http.request(method, path, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise ClientError(f"no answer from {self.url}: {error}") from None


def corpus_path(corpus: str) -> str:
    return f"/v1/corpora/{quote(corpus, safe='')}"


def document_path(corpus: str, document_id: str) -> str:
    return f"{corpus_path(corpus)}/documents/{quote(document_id, safe='')}"


def key_header(key: str) -> dict[str, str]:
    """Return the header that sends a key; what HTTP cannot carry is not shown in the error."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ClientError("ONEPASS_API_KEY holds no API key")
    return {"Authorization": f"Bearer {key}"} if key else {}


def read_answer(response: httpx.Response, url: str) -> Answer:
    """Read the answer of what says that all went well; Onepass then sends an object."""
    try:
        found = response.json()
    except ValueError:
        raise no_onepass(url) from None
    if not response.is_success or not isinstance(found, dict):
        raise no_onepass(url)
    return Answer(url, found)


def no_onepass(url: str) -> ClientError:
    return ClientError(f"{url} is no Onepass server")


def retry_after_s(response: httpx.Response) -> float:
    """How long an overloaded server asks to be left alone, a second if it does not say."""
    asked = response.headers.get("Retry-After", "")
    return float(asked) if asked.isdigit() else 1.0


def in_one_line(response: httpx.Response) -> str:
    """Put an error answer into one line; what stands in front of the server may send no JSON."""
    try:
        error = response.json()["error"]
        field = f"{error['param']}: " if error.get("param") else ""
        return f"{response.status_code} {field}{error['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} {response.reason_phrase}"
