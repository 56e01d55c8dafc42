"""vLLM's score dialect: pairs of texts, scored and not sorted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from deployments.api.dialects import (
    ACTIVATION_NAMES,
    Asked,
    DialectRequest,
    Direction,
    TokenLimit,
    Usage,
    check_complete,
    score_of,
    usage_of,
)
from deployments.api.wire import FilledText, Items, Text
from deployments.inference.truncation import Truncation
from deployments.ranking import RankedText, RerankAnswer

# The names that a field may have in a request.
FIRST_NAMES = ("text_1", "queries", "data_1")
SECOND_NAMES = ("text_2", "documents", "items", "data_2")


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def with_other_names(schema: dict[str, Any]) -> None:
    """Describe each name; one must be there, and those behind it are not looked at."""
    choices = []
    for names in (FIRST_NAMES, SECOND_NAMES):
        field = schema["properties"][names[0]]
        choices.append(
            {"anyOf": [{"properties": {name: field}, "required": [name]} for name in names]}
        )
        same = {"description": f"the same as `{names[0]}`"}
        schema["properties"].update(dict.fromkeys(names[1:], same))
    schema["allOf"] = choices
    del schema["required"]


Queries = Items[FilledText]
Texts = Items[Text]
AnyQueries = Annotated[
    Queries, BeforeValidator(as_list, json_schema_input_type=FilledText | Queries)
]
AnyTexts = Annotated[Texts, BeforeValidator(as_list, json_schema_input_type=Text | Texts)]


class ScoreRequest(DialectRequest):
    """One text with each of many, or as many with as many, pair by pair."""

    model_config = ConfigDict(json_schema_extra=with_other_names)

    text_1: AnyQueries = Field(
        validation_alias=AliasChoices(*FIRST_NAMES),
        description="the query, or one for each of text_2",
    )
    text_2: AnyTexts = Field(
        validation_alias=AliasChoices(*SECOND_NAMES),
        description="a text, or a list of them; at most `limits.documents`",
    )
    use_activation: bool | None = Field(
        None,
        validation_alias=AliasChoices(*ACTIVATION_NAMES),
        description="false = logits, not relevance from 0 to 1; older clients call it "
        "`activation` or `softmax`",
    )
    truncate_prompt_tokens: TokenLimit = Field(
        None, description="tokens kept of text_2; -1 = what the model's window leaves"
    )
    truncation_side: Direction = Field(None, description="the end that such a text loses")
    priority: int | None = Field(None, description="ignored")

    @model_validator(mode="after")
    def _paired(self) -> ScoreRequest:
        if len(self.text_1) not in (1, len(self.text_2)):
            message = "must hold one text, or as many as text_2"
            raise PydanticCustomError("length", message, {"path": ["text_1"]})
        return self

    @property
    def queries(self) -> Sequence[str]:
        """The query of each pair."""
        return self.text_1 * len(self.text_2) if len(self.text_1) == 1 else self.text_1

    @property
    def parts(self) -> list[Part]:
        """What to ask for each distinct query, and the places of its pairs."""
        places: dict[str, list[int]] = {}
        for place, query in enumerate(self.queries):
            places.setdefault(query, []).append(place)
        truncation = Truncation(self.truncation_side, self.truncate_prompt_tokens)
        return [
            Part(Asked(query, [self.text_2[place] for place in of_query], truncation), of_query)
            for query, of_query in places.items()
        ]


class Part(NamedTuple):
    """The pairs of one query: what is asked of them, and their places in the input."""

    asked: Asked
    places: list[int]


class PairScore(BaseModel):
    index: int = Field(description="the pair's place in the input, from 0")
    object: Literal["score"]
    score: float = Field(description="from 0 to 1; the logit without `use_activation`")
    truncated: bool = Field(description="the model saw a part of the text")


class ScoreResponse(BaseModel):
    """A score for each pair, in the input's order."""

    id: str
    object: Literal["list"]
    created: int = Field(description="seconds since 1970")
    model: str = Field(description="who scored")
    data: list[PairScore]
    usage: Usage


def answer(
    request: ScoreRequest, parts: Sequence[Part], rankings: Sequence[RerankAnswer]
) -> dict[str, Any]:
    """A score for each pair, in the input's order.

    Raises Unavailable where a pair has none: readers take the order for the input's.
    """
    found: dict[int, RankedText] = {}
    unscored: list[int] = []
    for part, ranking in zip(parts, rankings, strict=True):
        found.update((part.places[one.place], one) for one in ranking.ranked)
        unscored += [part.places[place] for place in ranking.unscored]
    check_complete(sorted(unscored), "text_2")
    raw = request.use_activation is False
    return {
        "id": uuid.uuid4().hex,
        "object": "list",
        "created": int(time.time()),
        "model": rankings[0].model,
        "data": [entry(place, found[place], raw) for place in sorted(found)],
        "usage": usage_of(sum(ranking.tally.tokens for ranking in rankings)),
    }


def entry(place: int, ranked: RankedText, raw: bool) -> dict[str, Any]:
    score = score_of(ranked, raw, "use_activation")
    return {"index": place, "object": "score", "score": score, "truncated": ranked.truncated}
