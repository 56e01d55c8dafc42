"""A chat endpoint that speaks OpenAI's /chat/completions, as most do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployments.provider_options import ChatArgs
from deployments.providers.http import Http
from pipeline.errors import Unavailable

COMPLETIONS = "/chat/completions"


class Chat:
    """Generates text. `args.base_url` ends where /chat/completions begins, mostly in /v1."""

    def __init__(self, args: ChatArgs, http: Http) -> None:
        self.args = args
        self.http = http

    async def generate(self, messages: Sequence[Mapping[str, str]], timeout_s: float) -> str:
        """Return the text of the first choice, which is not blank.

        Raises Unavailable where there is none, and whatever Http.post raises.
        """
        body = {
            "model": self.args.model,
            "messages": [dict(message) for message in messages],
            "temperature": self.args.temperature,
            "max_tokens": self.args.max_tokens,
        }
        answer = await self.http.post(self.args, COMPLETIONS, body, timeout_s)
        try:
            return completion_text(answer)
        except ValueError as error:
            raise Unavailable(f"{self.args.label}: {error}") from None


def completion_text(answer: Any) -> str:
    """Return the first choice's text; ValueError if it has none, or a blank one."""
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise ValueError("the answer has no text") from None
    if not isinstance(text, str) or not text.strip():
        raise ValueError("the answer has no text")
    return text
