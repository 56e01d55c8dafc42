"""What the dialects share: strict types, documents to rank, and what is asked of the ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from deployments.api.wire import MAX_ITEMS, FilledText, Items, Text, valid_text
from deployments.inference.truncation import AS_CONFIGURED, Side, Truncation
from deployments.ranking import RankedText, RerankAnswer
from pipeline.errors import InvalidInput, OnepassError, Unavailable

DOCUMENTS_A_SEARCH_UNIT = 100
MAX_RANK_FIELDS = 32
# What vLLM has called one and the same.
ACTIVATION_NAMES = ("use_activation", "activation", "softmax")
QUERY = "what texts are ranked for; at most `limits.query_chars` characters"


@dataclass(frozen=True, slots=True)
class Asked:
    """A ranking to be made, whatever the dialect that asked for it.

    With `whole` a text that the model would not see whole is refused. `query_param` and
    `texts_param` are the dialect's names of the two.
    """

    query: str
    texts: Sequence[str]
    truncation: Truncation = AS_CONFIGURED
    whole: bool = False
    query_param: str = "query"
    texts_param: str = "documents"


class DialectRequest(BaseModel):
    """Fields of other dialects are ignored; those known here are checked strictly."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)

    model: Text | None = Field(None, description="ignored: one model is served")


def as_object(value: Any) -> Any:
    """A text is a string, or an object with it under `text`."""
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise PydanticCustomError("text", "must be a string, or an object with a string in `text`")
    return value


def identity(value: Any) -> str | int | None:
    """An id is text or a whole number."""
    if value is None or type(value) is int:
        return value
    if type(value) is not str:
        raise PydanticCustomError("id", "an id is a string or an integer")
    return valid_text(value)


def lower(value: Any) -> Any:
    """Hugging Face's clients write Left and Right."""
    return value.lower() if isinstance(value, str) else value


def token_limit(value: Any) -> int | None:
    """-1 is vLLM's word for the model's window, beyond which nothing goes anyway."""
    if value is None:
        return None
    if type(value) is not int or (value < 1 and value != -1):
        raise PydanticCustomError("tokens", "must be a number of tokens from 1, or -1")
    return None if value == -1 else value


Count = Annotated[int, Field(ge=1)]
Direction = Annotated[
    Side | None,
    BeforeValidator(lower, json_schema_input_type=Literal["right", "left", "Right", "Left"] | None),
]
TokenLimit = Annotated[
    int | None, PlainValidator(token_limit, json_schema_input_type=Literal[-1] | Count | None)
]


class RerankDocument(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    text: Text = Field(description="what is ranked")
    id: Annotated[
        str | int | None, PlainValidator(identity, json_schema_input_type=str | int | None)
    ] = Field(None, description="given back with the result")


AnyDocument = Annotated[
    RerankDocument, BeforeValidator(as_object, json_schema_input_type=str | RerankDocument)
]

# Each once and not many: what is joined must not outgrow what was sent.
RankFields = Annotated[
    list[FilledText],
    Field(min_length=1, max_length=MAX_RANK_FIELDS, json_schema_extra={"uniqueItems": True}),
]


class RerankRequest(DialectRequest):
    """Documents to rank, in the words of Cohere, Jina and vLLM together."""

    query: FilledText = Field(description=QUERY)
    documents: Items[AnyDocument] = Field(
        description="strings, or objects with `text`; at most `limits.documents`"
    )
    top_n: Count | None = Field(None, description="results at most; null = all")
    return_documents: bool | None = Field(
        None, description="true = each result holds its `document`"
    )
    rank_fields: RankFields | None = Field(
        None, description="the fields of an object that are ranked, in order, instead of `text`"
    )
    max_tokens_per_doc: Count | None = Field(
        None, description="tokens kept of a document; at most what the model's window leaves"
    )
    max_tokens_per_query: Count | None = Field(
        None, description="tokens kept of the query; at most half the model's window"
    )
    truncation_direction: Direction = Field(
        None, description="the end that a document loses where it is too long"
    )
    truncation_side: Direction = Field(None, description="the same, in vLLM's words")
    truncate_prompt_tokens: TokenLimit = Field(
        None, description="vLLM's max_tokens_per_doc; -1 = what the model's window leaves"
    )
    use_activation: bool | None = Field(
        None,
        validation_alias=AliasChoices(*ACTIVATION_NAMES),
        description="false = scores are the model's logits, not relevance from 0 to 1; older "
        "clients of vLLM call it `activation` or `softmax`",
    )
    max_chunks_per_doc: Count | None = Field(None, description="ignored: a document is one pair")
    priority: int | None = Field(None, description="ignored")

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, values: Any) -> Any:
        """Make the text of objects that are ranked by several fields."""
        if not isinstance(values, Mapping):
            return values
        fields, documents = values.get("rank_fields"), values.get("documents")
        if not isinstance(fields, list) or not isinstance(documents, list):
            return values
        check_rank_fields(fields)
        if len(documents) > MAX_ITEMS:
            return values  # refused as such
        joined = [with_fields(one, fields, index) for index, one in enumerate(documents)]
        return {**values, "documents": joined}

    @property
    def asked(self) -> Asked:
        limit = self.max_tokens_per_doc or self.truncate_prompt_tokens
        side = self.truncation_direction or self.truncation_side
        texts = [document.text for document in self.documents]
        return Asked(self.query, texts, Truncation(side, limit, self.max_tokens_per_query))

    @property
    def raw(self) -> bool:
        return self.use_activation is False


def sometimes(when: str) -> Any:
    """Describe a field of an answer that is not always there."""
    return Field(default_factory=dict, description=when)


class DocumentText(BaseModel):
    text: str


class RankedDocument(BaseModel):
    """A document's score."""

    index: int = Field(description="the document's place in the input, from 0")
    relevance_score: float = Field(description="from 0 to 1; the logit if that was asked for")
    id: str | int = sometimes("there if it was sent")
    document: DocumentText = sometimes("there with `return_documents`")


class Usage(BaseModel):
    prompt_tokens: int = Field(description="read, special ones included")
    total_tokens: int


class ApiVersion(BaseModel):
    version: str


class BilledUnits(BaseModel):
    search_units: int = Field(description="one for each 100 documents")


def check_rank_fields(fields: list[Any]) -> None:
    names = [field for field in fields if isinstance(field, str)]
    if len(fields) > MAX_RANK_FIELDS or len(set(names)) < len(names):
        message = f"must hold at most {MAX_RANK_FIELDS} texts, each once"
        raise PydanticCustomError("fields", message, {"path": ["rank_fields"]})


def with_fields(document: Any, fields: list[Any], index: int) -> Any:
    """Return the document with the named fields, one below the other, as its `text`."""
    if not isinstance(document, Mapping):
        return document
    found = [document.get(field) for field in fields if isinstance(field, str)]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) < len(found):
        message = "an object needs every field of rank_fields as a string"
        raise PydanticCustomError("field", message, {"path": ["documents", index]})
    return {**document, "text": "\n".join(texts)}


def result(request: RerankRequest, ranked: RankedText) -> dict[str, Any]:
    """A document's score and its place in the input.

    Strict clients take no null: what was not sent or asked for is left out.
    """
    score = score_of(ranked, request.raw, "use_activation")
    entry: dict[str, Any] = {"index": ranked.place, "relevance_score": score}
    document = request.documents[ranked.place]
    if document.id is not None:
        entry["id"] = document.id
    if request.return_documents:
        entry["document"] = {"text": document.text}
    return entry


def score_of(ranked: RankedText, raw: bool, param: str) -> float:
    """The text's relevance from 0 to 1, or its logit if `raw`.

    Raises InvalidInput, naming `param`, where logits are asked for and the model gives none.
    """
    if not raw:
        return ranked.relevance
    if ranked.logit is None:
        raise InvalidInput("the model that scores gives no logits, only relevance", param)
    return ranked.logit


def check_complete(unscored: Sequence[int], param: str) -> None:
    """Raise Unavailable for a text without a score, where the answer has no place to say so."""
    if unscored:
        raise Unavailable("has no score, though others do", f"{param}[{unscored[0]}]")


def check_whole(ranking: RerankAnswer, param: str) -> None:
    """Raise InvalidInput for the first text of which the model did not see all."""
    cut = [one for one in ranking.ranked if one.truncated]
    if cut:
        first = min(cut, key=lambda one: one.place)
        raise InvalidInput(
            f"must have at most {first.tokens} tokens together with the query, and has more",
            f"{param}[{first.place}]",
        )


def sentence(error: OnepassError) -> str:
    """What an error says, beginning with the field at fault: for bodies without a place for it."""
    return error.message if error.param is None else f"{error.param}: {error.message}"


def usage(ranking: RerankAnswer) -> dict[str, int]:
    """Tokens of the pairs, special ones included: all of them were read, none written."""
    return usage_of(ranking.tally.tokens)


def usage_of(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def search_units(documents: int) -> int:
    """Cohere's unit: one query with up to 100 documents."""
    return -(-documents // DOCUMENTS_A_SEARCH_UNIT)
