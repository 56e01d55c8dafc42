"""Every option of the application, its default and the reason for it.

`AppArgs` is what `args:` in serve_config.yaml holds; the options of a search, which also stand in
the Composer's `user_config`, are in search_options, those of services outside in
provider_options, those of the tracker in tracker_options. docs/configuration.md is generated from
these files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from deployments.inference.truncation import MAX_WINDOW
from deployments.loopback import names_loopback
from deployments.needs import Parts, check_engine, check_needs
from deployments.options import (
    CORPUS,
    ConfigError,
    Milliseconds,
    Options,
    merged,
    one_line,
    option,
)
from deployments.provider_options import (
    KEY_ENV,
    ChatArgs,
    FallbackArgs,
    ProviderArgs,
    WebSearchArgs,
)
from deployments.search_options import SearchArgs
from deployments.tracker_options import TrackerArgs


class IndexArgs(Options):
    engine: Literal["lancedb", "qdrant"] = option(
        "lancedb", "embedded: no server to run; qdrant for those who have one"
    )
    uri: str | None = option(
        None,
        "folder, object-storage URI, or a Qdrant server's address; null = index/ in the data "
        "folder",
    )
    shared_path: bool = option(
        False, "true promises that the folder is the same on every node of the cluster"
    )
    storage_options: dict[str, str] = option({}, "credentials and endpoint of object storage")
    ann_min_rows: int = option(
        10_000,
        "below it an exact search takes no longer than the text leg (lancedb)",
        ge=256,
    )
    collection: str = option("onepass", "the collection of all corpora (qdrant)", pattern=CORPUS)
    api_key_env: str | None = option(None, KEY_ENV)
    grpc_port: int | None = option(
        None, "the server's port for gRPC, usually 6334; null = HTTP (qdrant)", ge=1, le=65_535
    )
    leg_timeout_ms: Milliseconds = option(5000, "one slow leg must not use up the request's time")

    @model_validator(mode="after")
    def _fits_engine(self) -> IndexArgs:
        scheme, _, rest = (self.uri or "").partition("://")
        if self.engine == "lancedb":
            if scheme in ("http", "https") or self.api_key_env or self.grpc_port:
                raise ValueError("an address, a key or a port of a server needs engine: qdrant")
        elif scheme not in ("http", "https") or not rest:
            raise ValueError("engine qdrant needs uri: https://HOST:PORT")
        elif self.api_key_env and scheme == "http" and not names_loopback(rest):
            raise ValueError("a key goes over https only: on http:// anyone on the way reads it")
        return self


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
    sparse_model: str | None = option(
        None,
        "a learned-sparse encoder beside it, such as splade-tiny-msmarco; null = none: it is a "
        "second pass over every text, and what it adds depends on the corpus",
    )
    num_cpus: float = option(0.1, "one query takes milliseconds; ingest shares the cores", gt=0)


class ScorerArgs(ModelArgs):
    """A cross-encoder of this application."""

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
    timeout_ms: Milliseconds = option(
        10_000, "longer than the slowest honest ranking; then on_error decides"
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


class LimitsArgs(Options):
    body_bytes: int = option(16 * 2**20, "largest request body", ge=1024)
    query_chars: int = option(8192, "longest query", ge=1)
    documents: int = option(1000, "most documents in one rerank or PUT", ge=1, le=10_000)
    text_bytes: int = option(2**20, "largest document text", ge=1)
    metadata_bytes: int = option(65_536, "largest document metadata: every chunk carries it", ge=2)
    deadline_ms: Milliseconds = option(
        30_000, "time for a request; X-Request-Timeout-Ms asks for less"
    )


Role = Literal["read", "write", "admin"]


class ApiKeyArgs(Options):
    """Keys and tenants are named as corpora are."""

    name: str = option(..., "what it is for; `onepass keys new` writes the entry", pattern=CORPUS)
    sha256: str = option(
        ..., "the key's SHA-256; the key itself stands nowhere", pattern="^[0-9a-f]{64}$"
    )
    tenant: str = option(..., "whose corpora, retrievals and reports it sees", pattern=CORPUS)
    role: Role = option(..., "read searches, write stores too, admin also purges and sees status")


class AuthArgs(Options):
    allow_anonymous: bool = option(
        False, "false serves only clients on this machine; true leaves the door to your proxy"
    )
    api_keys: list[ApiKeyArgs] = option(
        [], "with any, each request needs one, on this machine too", max_length=1000
    )

    @field_validator("api_keys")
    @classmethod
    def _distinct(cls, keys: list[ApiKeyArgs]) -> list[ApiKeyArgs]:
        for field in ("name", "sha256"):
            if len({getattr(key, field) for key in keys}) < len(keys):
                raise ValueError(f"two keys have the same {field}")
        return keys

    @model_validator(mode="after")
    def _keys_or_anonymous(self) -> AuthArgs:
        if self.allow_anonymous and self.api_keys:
            raise ValueError("allow_anonymous and api_keys exclude each other")
        return self


def kind_of_scorer(value: Any) -> str:
    """A remote reranker is told by its `dialect`."""
    is_remote = isinstance(value, ProviderArgs) or (
        isinstance(value, Mapping) and "dialect" in value
    )
    return "~remote" if is_remote else "~local"


AnyScorer = Annotated[
    Annotated[ScorerArgs, Tag("~local")] | Annotated[ProviderArgs, Tag("~remote")],
    Discriminator(kind_of_scorer),
]


class AppArgs(Options):
    """`args:` of serve_config.yaml."""

    search: SearchArgs = option(SearchArgs(), "defaults of a search")
    index: IndexArgs = option(IndexArgs(), "the index engine")
    chunking: ChunkingArgs = option(ChunkingArgs(), "how documents are cut")
    embedder: EmbedderArgs | None = option(EmbedderArgs(), "null = BM25 alone")
    scorer: AnyScorer | None = option(
        ScorerArgs(), "null = no correction and no reranking; with `dialect` a remote reranker"
    )
    fallback: list[FallbackArgs] = option(
        [], "remote rerankers asked in this order when the scorer fails", max_length=8
    )
    shadow: list[ProviderArgs] = option(
        [], "remote rerankers compared with the one served; never served", max_length=8
    )
    chat: ChatArgs | None = option(None, "for expansion; null = templates alone")
    web_search: WebSearchArgs | None = option(None, "for `corrective.fallback: http`")
    tracker: TrackerArgs = option(TrackerArgs(), "the record of retrievals, and its retention")
    limits: LimitsArgs = option(LimitsArgs(), "bounds, named in the error when exceeded")
    auth: AuthArgs = option(AuthArgs(), "who is served")

    @field_validator("fallback")
    @classmethod
    def _distinct(cls, fallback: list[FallbackArgs], info: ValidationInfo) -> list[FallbackArgs]:
        scorers = [info.data.get("scorer"), *fallback]
        labels = [one.label for one in scorers if isinstance(one, ProviderArgs)]
        if len(set(labels)) < len(labels):
            raise ValueError("two scorers are called the same; `name` tells them apart")
        return fallback

    @property
    def parts(self) -> Parts:
        """Which parts are there."""
        return Parts(
            scorer=self.scorer is not None,
            embedder=self.embedder is not None,
            chat=self.chat is not None,
            web_search=self.web_search is not None,
            sparse_model=self.sparse_model is not None,
        )

    @property
    def sparse_model(self) -> str | None:
        return None if self.embedder is None else self.embedder.sparse_model

    @model_validator(mode="wrap")
    @classmethod
    def _one_line(cls, values: Any, handler: Any) -> AppArgs:
        try:
            args: AppArgs = handler(values)
        except ValidationError as error:
            raise ConfigError(one_line(error)) from None
        check_engine(args.index.engine, args.sparse_model)
        check_needs(args.search, args.parts)
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
    check_needs(search, args.parts)
    return search
