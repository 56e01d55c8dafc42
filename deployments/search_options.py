"""The options of a search, each with its default and the reason for it.

They stand under `search` in serve_config.yaml, in the Composer's `user_config` (where a change
needs no restart), under `corpora` for one corpus, and in a request.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from deployments.options import (
    CORPUS,
    Fraction,
    Milliseconds,
    Options,
    Size,
    Weight,
    first_error,
    merged,
    option,
)
from pipeline.errors import InvalidInput
from pipeline.filters import parse_filter

Leg = Literal["dense", "bm25", "sparse"]
Kind = Literal["rewrite", "template", "hyde", "step_back", "multi_query"]
Json = dict[str, Any]
Source = Annotated[str, Field(min_length=1, max_length=4096)]
Sources = Annotated[list[Source], Field(max_length=1000)]


class ExpansionArgs(Options):
    enabled: bool = option(False, "off: every variant of a query costs a retrieval, most an LLM")
    rewrite: bool = option(
        True, "a request with history gets its question rewritten to stand alone"
    )
    templates: list[Annotated[str, Field(pattern=r"^[^{}]*\{query\}[^{}]*$", max_length=1000)]] = (
        option([], "texts with {query} once in them: variants without an LLM", max_length=8)
    )
    hyde: int = option(0, "hypothetical documents, for the dense leg alone", ge=0, le=5)
    step_back: bool = option(False, "one more general question")
    multi_query: int = option(0, "other wordings of the question", ge=0, le=8)
    weights: dict[Kind, Weight] = option(
        {}, "weight by kind of variant; one that is not named weighs 1, as the query itself does"
    )
    drift: Literal["off", "observe", "drop"] = option(
        "observe", "what becomes of a variant too far from the query; observe only counts it"
    )
    drift_threshold: Annotated[float, Field(ge=-1.0, le=1.0)] = option(
        0.7, "cosine to the query below which a variant has drifted; the usual value"
    )
    timeout_ms: Milliseconds = option(3000, "the query itself is retrieved meanwhile")


class FusionArgs(Options):
    method: Literal["rrf", "rsf", "dbsf", "convex"] = option(
        "rrf", "ranks need no calibration; the others fuse scores"
    )
    k: float = option(60.0, "the constant of reciprocal rank fusion, as published", gt=0, le=1e6)
    weights: dict[Leg, Weight] = option({}, "weight by leg; a leg that is not named weighs 1")


class SourcesArgs(Options):
    allow: Sources | None = option(
        None, "sources to search, exact or up to a trailing *; null = all, those without one too"
    )
    block: Sources = option([], "sources never to search, likewise; goes before allow")


class CorrectiveArgs(Options):
    enabled: bool = option(False, "off in code: the chain must work without a scorer")
    correct_threshold: Fraction = option(
        0.7, "relevance from which a hit is correct; the usual value where nothing is known"
    )
    incorrect_threshold: Fraction = option(
        0.3, "relevance below which a hit is incorrect; the usual value where nothing is known"
    )
    min_hits: Size = option(3, "fewer survivors than this ask for one continuation")
    fill: bool = option(False, "true asks for final_top_k survivors: more passes, fuller answers")
    expansion_multiplier: int = option(
        3, "a continuation asks each leg for top_k times this, at most 1,000", ge=2, le=20
    )
    max_corrections: int = option(1, "one continuation bounds the cost of a search", ge=0, le=5)
    fallback: Annotated[str, Field(pattern=r"^(http|corpus:[A-Za-z0-9][A-Za-z0-9_.-]{0,63})$")] | (
        None
    ) = option(None, "where to look if nothing is correct: http (`web_search`), or corpus:NAME")
    on_all_incorrect: Literal["empty", "best_effort"] = option(
        "empty", "an empty answer invites no made-up text; best_effort returns what there is"
    )

    @model_validator(mode="after")
    def _ordered(self) -> CorrectiveArgs:
        if self.incorrect_threshold > self.correct_threshold:
            raise ValueError("incorrect_threshold must not exceed correct_threshold")
        return self


class RerankArgs(Options):
    enabled: bool = option(False, "off in code: the chain must work without a scorer")
    top_n: Size | None = option(None, "how many candidates are scored; null = all")
    append_remaining: bool = option(True, "unscored hits follow the scored ones; false drops them")
    min_score: Fraction | None = option(
        None, "scored hits of lower relevance are dropped; 0 is a threshold, null is none"
    )


class AgeArgs(Options):
    field: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$", max_length=256)] = option(
        ..., "the metadata field: RFC 3339 time or date, or seconds since 1970"
    )
    half_life_days: float = option(..., "the age at which the factor is one half", gt=0, le=36_500)
    floor: float = option(0.1, "the factor never falls below this", gt=0, le=1)


class BoostArgs(Options):
    when: Json | None = option(None, "a filter: the rule acts on hits that match; null = on all")
    factor: float | None = option(
        None, "above 1 boosts, below 1 buries; on the odds of a scored hit", gt=0, le=1000
    )
    age: AgeArgs | None = option(None, "instead of `factor`: one that falls with a hit's age")

    @model_validator(mode="after")
    def _one_factor(self) -> BoostArgs:
        if (self.factor is None) == (self.age is None):
            raise ValueError("needs either factor or age")
        if self.when is None and self.age is None:
            raise ValueError("a factor without `when` would change nothing")
        check_filter(self.when)
        return self


class RefineArgs(Options):
    enabled: bool = option(False, "off: every strip is a forward pass more")
    mode: Literal["passage", "sentences", "windows"] = option(
        "sentences", "strips of three sentences, windows of 50 words, or whole passages"
    )
    min_score: Fraction = option(0.5, "strips of lower relevance are left out of `refined`")
    max_strips: Size | None = option(
        None, "strips kept in all, the best; null = 6, or 3 whole passages, as published"
    )


class ContextArgs(Options):
    enabled: bool = option(True, "most callers put the context straight into a prompt")
    max_tokens: int = option(4000, "token budget", ge=1, le=1_000_000)
    count: Literal["scorer", "estimate"] = option(
        "scorer", "the scorer's own tokenizer counts; estimate, or no scorer: 4 characters a token"
    )
    order: Literal["rank", "edges"] = option(
        "rank", "edges puts the best first and last: models overlook what lies in the middle"
    )
    delimiter: str = option("\n\n", "between passages", max_length=100)


class SearchOptions(Options):
    """What a request, and a corpus, may override."""

    top_k: Size = option(50, "candidates recalled: enough that fusion has a choice")
    final_top_k: Size = option(10, "hits returned: about what fits a prompt")
    leg_k: Size | None = option(None, "depth of each leg; null = top_k")
    legs: Annotated[list[Leg], Field(min_length=1)] | None = option(
        None, "the legs to search; null = all there are"
    )
    filter: Json | None = option(None, "a filter that every hit must pass")
    sources: SourcesArgs = option(SourcesArgs(), "which sources may be searched")
    expansion: ExpansionArgs = option(ExpansionArgs(), "variants of the query")
    fusion: FusionArgs = option(FusionArgs(), "fusion of the legs")
    corrective: CorrectiveArgs = option(CorrectiveArgs(), "correction (CRAG)")
    rerank: RerankArgs = option(RerankArgs(), "reranking")
    boost: Annotated[list[BoostArgs], Field(max_length=32)] = option(
        [], "rules that boost or bury hits by a field's value or by age"
    )
    refine: RefineArgs = option(RefineArgs(), "the returned hits cut down to what answers")
    context: ContextArgs = option(ContextArgs(), "the assembled context")
    on_error: Literal["open", "closed"] = option(
        "open", "open returns what there is and names the part in `degraded`; closed answers 503"
    )
    on_overload: Literal["refuse", "degrade"] = option(
        "refuse", "a full scorer is 429, to be tried again; degrade takes it for one that failed"
    )

    @model_validator(mode="after")
    def _sound_filter(self) -> SearchOptions:
        check_filter(self.filter)
        return self


class SearchArgs(SearchOptions):
    """Defaults of a search, and what differs for single corpora."""

    corpora: dict[Annotated[str, Field(pattern=CORPUS)], Json] = option(
        {}, "search options by corpus, laid over the others"
    )

    @model_validator(mode="after")
    def _sound_corpora(self) -> SearchArgs:
        for name in self.corpora:
            try:
                self.for_corpus(name)
            except ValidationError as error:
                path, message = first_error(error)
                raise ValueError(f"{name}.{path}: {message}") from None
        return self

    def for_corpus(self, corpus: str) -> SearchOptions:
        """Return the options that hold for one corpus."""
        base = self.model_dump(exclude={"corpora"})
        return SearchOptions.model_validate(merged(base, self.corpora.get(corpus, {})))


def check_filter(raw: Json | None) -> None:
    """Raise ValueError, which pydantic reports, for a filter that is none."""
    if raw is None:
        return
    try:
        parse_filter(raw)
    except InvalidInput as error:
        raise ValueError(f"{error.param}: {error.message}") from None
