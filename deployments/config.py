"""Every option of the application, its default and the reason for it.

`AppArgs` is what `args:` in serve_config.yaml holds; `SearchArgs` is also what the Composer's
`user_config` holds, which changes without a restart. docs/configuration.md is generated from
this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from deployments.inference.truncation import MAX_WINDOW

# The kinds of value that requests may give too.
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Size = Annotated[int, Field(ge=1, le=1000)]
Multiplier = Annotated[int, Field(ge=2, le=20)]
Corrections = Annotated[int, Field(ge=0, le=5)]
OnAllIncorrect = Literal["empty", "best_effort"]


class ConfigError(Exception):
    """The configuration is wrong; the message is one line that names the option."""


class Options(BaseModel):
    """Strict types, no unknown option, no NaN, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def option(default: Any, reason: str, **bounds: Any) -> Any:
    return Field(default=default, description=reason, **bounds)


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
    expansion_multiplier: Multiplier = option(
        3, "a continuation asks each leg for top_k times this, at most 1,000"
    )
    max_corrections: Corrections = option(1, "one continuation bounds the cost of a search")
    on_all_incorrect: OnAllIncorrect = option(
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


class FusionArgs(Options):
    k: float = option(60.0, "the constant of reciprocal rank fusion, as published", gt=0, le=1e6)
    weights: dict[Literal["dense", "bm25"], Annotated[float, Field(ge=0, le=1000)]] = option(
        {}, "weight by leg; a leg that is not named weighs 1"
    )


class ContextArgs(Options):
    enabled: bool = option(True, "most callers put the context straight into a prompt")
    max_tokens: int = option(
        4000, "token budget, estimated at four characters a token", ge=1, le=1_000_000
    )


class SearchArgs(Options):
    """Defaults of a search. A request may override top_k, final_top_k, what stands under
    corrective and rerank, and whether there is a context."""

    top_k: Size = option(50, "candidates recalled: enough that fusion has a choice")
    final_top_k: Size = option(10, "hits returned: about what fits a prompt")
    leg_k: Size | None = option(None, "depth of each leg; null = top_k")
    corrective: CorrectiveArgs = option(CorrectiveArgs(), "correction (CRAG)")
    rerank: RerankArgs = option(RerankArgs(), "reranking")
    fusion: FusionArgs = option(FusionArgs(), "fusion of the legs")
    context: ContextArgs = option(ContextArgs(), "the assembled context")
    on_error: Literal["open", "closed"] = option(
        "open", "open returns what there is and names the part in `degraded`; closed answers 503"
    )


class IndexArgs(Options):
    engine: Literal["lancedb"] = option("lancedb", "embedded: no server to run")
    uri: str | None = option(None, "folder or object-storage URI; null = index/ in the data folder")
    shared_path: bool = option(
        False, "true promises that the folder is the same on every node of the cluster"
    )
    storage_options: dict[str, str] = option({}, "credentials and endpoint of object storage")
    leg_timeout_ms: int = option(
        5000, "one slow leg must not use up the request's time", ge=1, le=600_000
    )


class ChunkingArgs(Options):
    max_tokens: int = option(
        128,
        "a chunk fits the cross-encoder's window, and 30 of them two CPU seconds",
        ge=16,
        le=8192,
    )
    overlap_tokens: int = option(16, "a sentence cut in two is whole in one of them", ge=0, le=4096)

    @model_validator(mode="after")
    def _smaller(self) -> ChunkingArgs:
        if self.overlap_tokens >= self.max_tokens:
            raise ValueError("overlap_tokens must be smaller than max_tokens")
        return self


class ModelArgs(Options):
    provider: Literal["auto", "cuda", "cpu"] = option(
        "auto", "cuda where it works, else cpu; /v1/status shows which"
    )
    allow_cpu_fallback: bool = option(
        False, "asking for cuda and getting cpu is an error at start, not a slow surprise"
    )
    threads: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = option(
        "auto", "auto = the smaller of CPU affinity and num_cpus, never the host's cores"
    )


class EmbedderArgs(ModelArgs):
    model: str = option("bge-small-en-v1.5", "bundle, local folder or hub id")
    num_cpus: float = option(0.1, "one query takes milliseconds; ingest shares the cores", gt=0)


class ScorerArgs(ModelArgs):
    model: str = option("ms-marco-MiniLM-L-12-v2", "bundle, local folder or hub id")
    num_cpus: float = option(1.0, "what the scorer reserves: it is the machine's cost", gt=0)
    activation: Literal["sigmoid", "identity"] | None = option(
        None, "overrides the model's own setting; never guessed from values"
    )
    max_tokens: int | None = option(None, "overrides the model's window", ge=8, le=MAX_WINDOW)
    truncation_side: Literal["right", "left"] | None = option(
        None, "the end that a document too long for the window loses; null = the model's own"
    )
    max_query_tokens: int | None = option(
        None,
        "tokens of a query at most, so that documents have room; null = the model's own, else half "
        "the window",
        ge=1,
    )
    max_document_tokens: int | None = option(
        None,
        "tokens of a document at most, for a pass costs what it reads; null = the model's own, "
        "else the window's",
        ge=1,
    )
    timeout_ms: int = option(
        10_000, "longer than the slowest honest ranking; then on_error decides", ge=1, le=600_000
    )
    cache_bytes: int = option(
        64 * 2**20, "scores kept for repeats (about 130,000 pairs); 0 = off", ge=0
    )
    max_batch_tokens: int | None = option(
        None,
        "padded tokens a batch; null = 512 on a CPU, where larger ones are slower, 16,384 on a GPU",
        ge=8,
        le=1_048_576,
    )
    max_queued_tokens: int = option(
        25_000,
        "more than this ahead of a request is 429: a few seconds of two cores; raise it on a GPU",
        ge=1,
    )


class TrackerArgs(Options):
    path: str | None = option(None, "DuckDB file; null = tracker.duckdb in the data folder")
    durability: Literal["async", "commit"] = option(
        "async", "tracking never delays a search; commit waits for the disk"
    )
    memory_limit: str = option("512MB", "DuckDB's own default is 80 % of the machine")
    threads: int = option(1, "one writer; more threads would take the scorer's cores", ge=1, le=64)
    outbox_rows: int = option(
        200_000, "records and hits a Composer replica holds for the tracker: about 90 MB", ge=1
    )
    retention_days: float = option(90.0, "older records are purged; 0 = keep all", ge=0, le=36_500)
    interval_hours: float = option(24.0, "how often retention runs", gt=0, le=8_760)
    start_jitter_s: float = option(
        60.0, "the first purge waits up to this long, so that starts do not pile up", ge=0, le=3600
    )


class LimitsArgs(Options):
    body_bytes: int = option(16 * 2**20, "largest request body", ge=1024)
    query_chars: int = option(8192, "longest query", ge=1)
    documents: int = option(1000, "most documents in one rerank or PUT", ge=1)
    text_bytes: int = option(2**20, "largest document text", ge=1)
    metadata_bytes: int = option(65_536, "largest document metadata: every chunk carries it", ge=2)
    deadline_ms: int = option(
        30_000, "time for a request; X-Request-Timeout-Ms asks for less", ge=1, le=600_000
    )


class AuthArgs(Options):
    allow_anonymous: bool = option(
        False, "false serves only clients on this machine; true leaves the door to your proxy"
    )


class AppArgs(Options):
    """`args:` of serve_config.yaml."""

    search: SearchArgs = option(SearchArgs(), "defaults of a search")
    index: IndexArgs = option(IndexArgs(), "the index engine")
    chunking: ChunkingArgs = option(ChunkingArgs(), "how documents are cut")
    embedder: EmbedderArgs | None = option(EmbedderArgs(), "null = BM25 alone")
    scorer: ScorerArgs | None = option(ScorerArgs(), "null = no correction and no reranking")
    tracker: TrackerArgs = option(TrackerArgs(), "the record of retrievals, and its retention")
    limits: LimitsArgs = option(LimitsArgs(), "bounds, named in the error when exceeded")
    auth: AuthArgs = option(AuthArgs(), "who is served")

    @model_validator(mode="wrap")
    @classmethod
    def _one_line(cls, values: Any, handler: Any) -> AppArgs:
        try:
            args: AppArgs = handler(values)
        except ValidationError as error:
            raise ConfigError(one_line(error)) from None
        check_scorer(args.search, args.scorer is not None)
        return args


def with_user_config(args: AppArgs, user_config: Mapping[str, Any]) -> SearchArgs:
    """Return the search options with the Composer's `user_config` laid over them."""
    if not isinstance(user_config, Mapping):
        raise ConfigError("configuration: user_config must be an object of search options")
    options = merged(args.search.model_dump(), user_config)
    try:
        search = SearchArgs.model_validate(options)
    except ValidationError as error:
        raise ConfigError(one_line(error)) from None
    check_scorer(search, args.scorer is not None)
    return search


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `changes` laid over it, objects merged key by key."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merged(old, value)
        else:
            result[key] = value
    return result


def check_scorer(search: SearchArgs, has_scorer: bool) -> None:
    """Refuse correction or reranking where there is no scorer."""
    for name in unmet(search, has_scorer):
        raise ConfigError(f"search.{name}.enabled needs a scorer, and `scorer` is null")


def unmet(search: SearchArgs, has_scorer: bool) -> list[str]:
    """Name the parts that are on and need a scorer that is not there."""
    parts = {"corrective": search.corrective.enabled, "rerank": search.rerank.enabled}
    return [] if has_scorer else [name for name, enabled in parts.items() if enabled]


def one_line(error: ValidationError) -> str:
    """Name the first wrong option and say why, without its value."""
    path, message = first_error(error)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"configuration: {path}: {message}{more}"


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return where the first error lies, as a dotted path, and what it is."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]
