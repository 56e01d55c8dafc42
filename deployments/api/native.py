"""The native API's requests and answers."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from deployments.api.overrides import override_of
from deployments.api.wire import (
    CONTROL,
    MAX_ITEMS,
    MAX_NESTING,
    MAX_VALUES,
    FilledText,
    FirstFault,
    Items,
    Metadata,
    Text,
    Wire,
    check_json,
)
from deployments.options import CORPUS
from deployments.search_options import SearchOptions
from pipeline.documents import Document
from pipeline.errors import OnepassError
from pipeline.filters import parse_filter
from tracker.records import Outcome

Corpus = Annotated[str, Field(pattern=CORPUS)]
ID_CHARS = 512
# No control character, and one that is no space.
ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
# A request that stores a thousand documents with a hundred values each is a large one.
MAX_PUT_VALUES = 100_000
# Metadata lies in an object, in a list, in the request.
ABOVE_METADATA = 3


def addressable(value: str) -> str:
    """Refuse an id that no path could name, or whose path would name another."""
    if value in (".", "..") or CONTROL.search(value):
        raise PydanticCustomError("id", "must not be . or .. nor hold control characters")
    return value


DocumentId = Annotated[
    FilledText,
    AfterValidator(addressable),
    Field(
        max_length=ID_CHARS,
        json_schema_extra={"pattern": ID_PATTERN, "not": {"enum": [".", ".."]}},
    ),
]


def parse_time(value: Any) -> datetime:
    """Parse an RFC 3339 time to UTC; one without a zone could mean any of a day's moments."""
    try:
        parsed = datetime.fromisoformat(value.replace("Z", "+00:00"))
        moment = parsed.astimezone(timezone.utc)
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise PydanticCustomError("time", "must be an RFC 3339 time") from None
    if parsed.utcoffset() is None:
        raise PydanticCustomError("time", "must carry a time zone")
    return moment


Time = Annotated[datetime, BeforeValidator(parse_time)]


class Problem(BaseModel):
    type: str = Field(description="stable, for programs")
    message: str = Field(description="for people; holds no value of the request")
    param: str | None = Field(description="the field at fault")
    request_id: str | None


class NativeError(BaseModel):
    error: Problem


def error(error: OnepassError, request_id: str | None) -> dict[str, Any]:
    """The body of every error but those of the dialects."""
    return {
        "error": {
            "type": error.type,
            "message": error.message,
            "param": error.param,
            "request_id": request_id,
        }
    }


class Page(Wire):
    """Which part of a list, in the query string, where all values are text."""

    model_config = ConfigDict(strict=False)

    limit: int = Field(100, ge=1, le=1000, description="items at most")
    next: str | None = Field(
        None, max_length=4096, description="what the page before gave; absent for the first"
    )


class WindowPage(Page):
    """A part of a list of what was recorded in a window of time."""

    corpus: Corpus | None = Field(None, description="absent: all")
    since: Time | None = Field(None, description="RFC 3339")
    until: Time | None = Field(None, description="RFC 3339; not included")


class Turn(Wire):
    """One turn of a conversation, the oldest first."""

    role: Literal["user", "assistant"] = Field(description="who spoke")
    content: FilledText = Field(description="what was said; at most `limits.query_chars`")


# Null: the default of the application and the corpus.
Options = override_of(SearchOptions)


class SearchRequest(Options):  # type: ignore[misc, valid-type]
    """A query and, beside it, any option of a search."""

    query: FilledText = Field(
        description="a question or keywords; at most `limits.query_chars` characters"
    )
    corpus: Corpus = Field("default", description="where to search")
    history: Annotated[list[Turn], FirstFault(), Field(max_length=100)] | None = Field(
        None, description="the conversation before; `expansion.rewrite` makes use of it"
    )
    include_trace: bool | None = Field(None, description="true = the answer tells every hit's way")
    include_context: bool | None = Field(None, description="the same as context.enabled")

    def given(self) -> dict[str, Any]:
        """Return what the client set, the filter parsed. Raises InvalidInput for a filter that
        is none."""
        request: dict[str, Any] = super().given() | {"corpus": self.corpus}
        if self.filter is not None:
            request["filter"] = parse_filter(self.filter)
        if self.history is not None:
            request["history"] = [turn.model_dump() for turn in self.history]
        return request


class DocumentIn(Wire):
    """A document; it needs `text` or `chunks`."""

    model_config = ConfigDict(
        json_schema_extra={
            "additionalProperties": False,
            "anyOf": [{"required": ["text"]}, {"required": ["chunks"]}],
        }
    )

    id: DocumentId = Field(description="names the document in its corpus")
    text: FilledText | None = Field(None, description="at most `limits.text_bytes`")
    title: Annotated[FilledText, Field(max_length=2048)] | None = Field(
        None, description="scored and embedded with each chunk"
    )
    source: Annotated[Text, Field(max_length=4096)] | None = Field(
        None, description="where it is from; `sources` of a search select by it"
    )
    metadata: Metadata = Field(
        default_factory=dict,
        description="what filters and boost rules look at; at most `limits.metadata_bytes` and "
        f"{MAX_VALUES:,} values",
    )
    chunks: Items[FilledText] | None = Field(
        None,
        description=f"the text already cut, at most {MAX_ITEMS:,}; otherwise it is cut here",
    )

    @model_validator(mode="after")
    def _has_text(self) -> DocumentIn:
        if self.text is None and self.chunks is None:
            raise PydanticCustomError("missing", "needs text or chunks")
        return self

    def document(self) -> Document:
        return Document(
            id=self.id,
            text=self.text or "",
            title=self.title,
            source=self.source,
            metadata=self.metadata,
            chunks=None if self.chunks is None else tuple(self.chunks),
        )


class PutDocuments(Wire):
    """Documents to store, each id once."""

    documents: Items[DocumentIn] = Field(
        description=f"at most `limits.documents`, and {MAX_PUT_VALUES:,} values in all, those of "
        "metadata and chunks among them"
    )

    @model_validator(mode="before")
    @classmethod
    def _few_values(cls, values: Any) -> Any:
        check_json(values, MAX_PUT_VALUES, MAX_NESTING + ABOVE_METADATA)
        return values

    @model_validator(mode="after")
    def _distinct(self) -> PutDocuments:
        seen: set[str] = set()
        for index, document in enumerate(self.documents):
            if document.id in seen:
                raise PydanticCustomError(
                    "duplicate",
                    "this id stands twice in the request",
                    {"path": ["documents", index, "id"]},
                )
            seen.add(document.id)
        return self


class FeedbackRequest(Wire):
    """A judgement."""

    retrieval_id: Annotated[FilledText, Field(max_length=64)] = Field(
        description="of the search's answer"
    )
    document_id: DocumentId = Field(description="one of its hits' documents")
    outcome: Outcome = Field(description="how well it answers")


class CompactRequest(Wire):
    """Nothing is to be said, but it must be said as JSON, which no other site's page can."""


class PurgeRequest(Wire):
    """What to delete."""

    before: Time = Field(description="records older than this RFC 3339 time are deleted")
    dry_run: bool = Field(False, description="true only counts")
