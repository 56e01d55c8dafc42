"""The native API's requests and answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from deployments.api.wire import FilledText, Json, Metadata, Text, Wire
from deployments.options import CORPUS, Fraction, Size
from pipeline.documents import Document
from pipeline.filters import parse_filter
from tracker.records import Outcome

Corpus = Annotated[str, Field(pattern=CORPUS)]
DocumentId = Annotated[FilledText, Field(max_length=512)]


def kind_of(value: Any) -> str:
    return "~bool" if isinstance(value, bool) else "~object"


def parse_time(value: Any) -> datetime:
    """Parse an RFC 3339 time; one without a zone could mean any of a day's moments."""
    try:
        parsed = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (AttributeError, TypeError, ValueError):
        raise PydanticCustomError("time", "must be an RFC 3339 time") from None
    if parsed.utcoffset() is None:
        raise PydanticCustomError("time", "must carry a time zone")
    return parsed


Time = Annotated[datetime, BeforeValidator(parse_time)]


class CorrectiveOptions(Wire):
    """Switches correction on with these options; absent ones keep their defaults."""

    enabled: bool = True
    correct_threshold: Fraction | None = None
    incorrect_threshold: Fraction | None = None
    min_hits: Size | None = None
    fill: bool | None = None
    expansion_multiplier: int | None = None
    max_corrections: int | None = None
    on_all_incorrect: str | None = None


class RerankOptions(Wire):
    """Switches reranking on with these options; `top_n` null scores every candidate."""

    enabled: bool = True
    top_n: Size | None = None
    append_remaining: bool | None = None


Corrective = Annotated[
    Annotated[bool, Tag("~bool")] | Annotated[CorrectiveOptions, Tag("~object")],
    Discriminator(kind_of),
]
Rerank = Annotated[
    Annotated[bool, Tag("~bool")] | Annotated[RerankOptions, Tag("~object")],
    Discriminator(kind_of),
]


class SearchRequest(Wire):
    query: FilledText = Field(description="a question or keywords")
    corpus: Corpus = "default"
    top_k: Size | None = Field(None, description="candidates recalled")
    final_top_k: Size | None = Field(None, description="hits returned, at most top_k")
    filter: Json | None = Field(None, description='{"field": "year", "gte": 2020}, all, any, not')
    corrective: Corrective | None = None
    rerank: Rerank | None = None
    include_trace: bool | None = None
    include_context: bool | None = None

    def given(self) -> dict[str, Any]:
        """Return what the client set, the filter parsed. Null leaves a default, but for
        `rerank.top_n`, where it means all. Raises InvalidInput for a filter that is none."""
        request = self.model_dump(exclude_none=True, exclude_unset=True) | {"corpus": self.corpus}
        if self.filter is not None:
            request["filter"] = parse_filter(self.filter)
        if isinstance(self.rerank, RerankOptions) and "top_n" in self.rerank.model_fields_set:
            request["rerank"]["top_n"] = self.rerank.top_n
        return request


class DocumentIn(Wire):
    id: DocumentId
    text: FilledText | None = None
    title: Annotated[FilledText, Field(max_length=2048)] | None = None
    source: Annotated[Text, Field(max_length=4096)] | None = None
    metadata: Metadata = Field(default_factory=dict)
    chunks: Annotated[list[FilledText], Field(min_length=1)] | None = Field(
        None, description="the text already cut; otherwise it is cut here"
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
    documents: Annotated[list[DocumentIn], Field(min_length=1)]

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
    retrieval_id: Annotated[FilledText, Field(max_length=64)]
    document_id: DocumentId
    outcome: Outcome


class PurgeRequest(Wire):
    before: Time = Field(description="records older than this RFC 3339 time are deleted")
    dry_run: bool = False
