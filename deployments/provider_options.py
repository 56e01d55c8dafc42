"""The options of services outside: remote rerankers, a chat endpoint, a web search."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from deployments.options import Fraction, Milliseconds, Options, option

Dialect = Literal["cohere", "jina", "tei", "vllm", "nim", "doubao", "ollama", "standard", "llm"]
Url = Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=2048)]
Path = Annotated[str, Field(pattern=r"^/[^\s?#]*$", max_length=2048)]
# Which dialects have a place for it; elsewhere it would be ignored in silence.
TAKE_INSTRUCTION = ("doubao", "ollama", "standard", "llm")
NEED_MODEL = ("cohere", "jina", "ollama", "llm")
KEY_ENV = "the environment variable that holds the API key; keys never stand in a file"


class ServiceArgs(Options):
    """A service over HTTP."""

    base_url: Url = option(..., "scheme, host and whatever goes before the service's own path")
    api_key_env: str | None = option(None, KEY_ENV)
    timeout_ms: Milliseconds = option(5000, "for one try; all tries end with the request's time")
    retries: int = option(2, "tries more after a 429, a 5xx or a broken connection", ge=0, le=10)

    @property
    def label(self) -> str:
        """What errors call it; never its address."""
        return "the service"


class ProviderArgs(ServiceArgs):
    """A remote reranker. Only the query and the texts go out, never metadata."""

    dialect: Dialect = option(..., "the wire format; llm asks a chat endpoint to rank")
    path: Path | None = option(None, "the path below base_url; null = the dialect's own")
    model: str | None = option(None, "the provider's name of the model")
    name: str | None = option(None, "what it is called in answers and reports; null = the dialect")
    instruction: str | None = option(
        None, "for dialects that take one: how to judge", max_length=4096
    )
    scale: Literal["relevance", "logit"] | None = option(
        None, "what its scores are: in [0, 1], or logits; null = the dialect's own"
    )
    max_documents: int | None = option(
        None, "texts in one call; null = the dialect's own limit", ge=1, le=10_000
    )

    @model_validator(mode="after")
    def _fits_dialect(self) -> ProviderArgs:
        if self.model is None and self.dialect in NEED_MODEL:
            raise ValueError(f"dialect {self.dialect} needs a model")
        if self.instruction is not None and self.dialect not in TAKE_INSTRUCTION:
            raise ValueError(f"dialect {self.dialect} takes no instruction")
        return self

    @property
    def label(self) -> str:
        """Its fingerprint in answers: name/model."""
        return f"{self.name or self.dialect}/{self.model or 'default'}"


class FallbackArgs(ProviderArgs):
    """A remote reranker that stands behind another scorer, whose scale is not its own."""

    correct_threshold: Fraction | None = option(
        None, "thresholds of correction for its scores; without them it grades nothing"
    )
    incorrect_threshold: Fraction | None = option(None, "likewise; both or neither")

    @model_validator(mode="after")
    def _both_thresholds(self) -> FallbackArgs:
        correct, incorrect = self.correct_threshold, self.incorrect_threshold
        if (correct is None) != (incorrect is None):
            raise ValueError("needs both thresholds or neither")
        if correct is not None and incorrect is not None and incorrect > correct:
            raise ValueError("incorrect_threshold must not exceed correct_threshold")
        return self


class ChatArgs(ServiceArgs):
    """An OpenAI-compatible chat endpoint, for expansion."""

    model: str = option(..., "the endpoint's name of the model")
    temperature: float = option(0.0, "the same question, the same variants", ge=0, le=2)
    max_tokens: int = option(256, "a variant is short", ge=1, le=8192)

    @property
    def label(self) -> str:
        return f"chat/{self.model}"


class WebSearchArgs(ServiceArgs):
    """A search over HTTP that correction may fall back to; docs/providers.md has its contract."""

    max_results: int = option(10, "texts taken of one answer", ge=1, le=100)
    max_bytes: int = option(2**20, "a longer answer is refused", ge=1024, le=64 * 2**20)
    max_text_chars: int = option(20_000, "a longer text is cut", ge=100, le=1_000_000)

    @property
    def label(self) -> str:
        return "web search"
