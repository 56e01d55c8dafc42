"""What a model's folder holds, how the model is to be run, and its fingerprint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.inference.errors import ModelError
from deployments.inference.truncation import AS_CONFIGURED, MAX_WINDOW, Side, Truncation, limits_in

logger = logging.getLogger(__name__)

KINDS = ("cross_encoder", "dense", "sparse")
ACTIVATIONS = ("sigmoid", "identity")
POOLINGS = ("cls", "mean")
CHOICES = {
    "kind": KINDS,
    "activation": ACTIVATIONS,
    "pooling": POOLINGS,
    "truncation_side": ("right", "left"),
}
PRECISIONS = ("fp32", "fp16")

SETTINGS_FILE = "onepass.json"
TOKENIZER_FILE = "tokenizer.json"
WEIGHTS_FILES = {
    "fp32": ("model.onnx", "onnx/model.onnx"),
    "fp16": ("model.fp16.onnx", "onnx/model.fp16.onnx"),
}
DEFAULT_MAX_TOKENS = 512
# Part of every fingerprint: raised whenever graphs of a kind are run otherwise than before.
# A cross-encoder's last layer is cut to the first token.
GRAPH_VERSIONS = {"cross_encoder": "2", "dense": "1", "sparse": "1"}
# Models of these families keep their first positions for padding.
OFFSET_POSITIONS = frozenset({"camembert", "mpnet", "roberta", "xlm-roberta"})


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is run. Nothing here is ever guessed from the values a model gives.

    `activation` turns a cross-encoder's logit into relevance. `truncation_side` is the end that
    its documents lose where they are too long; `max_query_tokens` and `max_document_tokens` cut
    sooner than the window does. `pooling`, `normalise` and `dimension` are a dense
    encoder's, the prefixes any encoder's.
    """

    name: str
    kind: str
    max_tokens: int = DEFAULT_MAX_TOKENS
    truncation_side: Side = "right"
    max_query_tokens: int | None = None
    max_document_tokens: int | None = None
    activation: str = "sigmoid"
    pooling: str = "mean"
    normalise: bool = True
    query_prefix: str = ""
    document_prefix: str = ""
    dimension: int | None = None

    def __post_init__(self) -> None:
        for field, known in CHOICES.items():
            value = getattr(self, field)
            if value not in known:
                message = f"{field} of {self.name} must be one of {', '.join(known)}, not {value!r}"
                raise ModelError(message)
        for field in ("max_tokens", "max_query_tokens", "max_document_tokens"):
            value = getattr(self, field)
            if value is None and field != "max_tokens":
                continue
            if type(value) is not int or value < 1:
                raise ModelError(f"{field} of {self.name} must be a positive whole number")
        if self.max_tokens > MAX_WINDOW:
            raise ModelError(f"max_tokens of {self.name} can be {MAX_WINDOW} at most")

    @property
    def truncation(self) -> Truncation:
        """Where a pair is cut unless a request says otherwise."""
        return Truncation(self.truncation_side, self.max_document_tokens, self.max_query_tokens)


def read_settings(folder: Path, kind: str, **overrides: Any) -> ModelSettings:
    """Return the settings of a model's folder, where `overrides` that are not None replace them.

    They come from onepass.json, else from config.json and defaults, which is logged, as is how
    long a text may be. ModelError if the model is of another kind, or `max_tokens` is beyond what
    it is known to take.
    """
    stored = stored_settings(folder)
    own = stored or assumed_settings(folder, kind)
    if own.kind != kind:
        raise ModelError(f"{own.name} is a {own.kind} model, and a {kind} model is needed")
    given = {field: value for field, value in overrides.items() if value is not None}
    settings = dataclasses.replace(own, **given)
    limit = max(stored.max_tokens if stored else 0, position_limit(folder) or 0)
    if limit and settings.max_tokens > limit:
        raise ModelError(f"max_tokens of {own.name} can be {limit} at most")
    log_limits(settings)
    return settings


def log_limits(settings: ModelSettings) -> None:
    """Say how long a text may be, for it is set in several places and only one of them wins."""
    shown = f"a window of {settings.max_tokens} tokens"
    if settings.kind == "cross_encoder":
        limits = limits_in(settings.max_tokens, AS_CONFIGURED, settings.truncation)
        shown += f", queries of {limits.query} at most, documents of {limits.document}"
        shown += f" at most, cut on the {limits.side}"
    logger.info("%s has %s", settings.name, shown)


def stored_settings(folder: Path) -> ModelSettings | None:
    """Return what onepass.json says, or None where there is none."""
    manifest = read_json(folder / SETTINGS_FILE)
    if manifest is None:
        return None
    try:
        return ModelSettings(**manifest["settings"])
    except (KeyError, TypeError) as error:
        raise ModelError(f"{folder / SETTINGS_FILE} is not usable: {error}") from error


def assumed_settings(folder: Path, kind: str) -> ModelSettings:
    """Return the settings of a model that has no onepass.json, and say so in the log."""
    limit = position_limit(folder)
    settings = ModelSettings(
        name=model_name(folder),
        kind=kind,
        max_tokens=min(DEFAULT_MAX_TOKENS, limit or DEFAULT_MAX_TOKENS),
        pooling=configured_pooling(folder),
    )
    shown = (
        f"activation {settings.activation}"
        if kind == "cross_encoder"
        else f"{settings.pooling} pooling"
    )
    logger.info(
        "%s has no %s: assuming %s, %d tokens", folder, SETTINGS_FILE, shown, settings.max_tokens
    )
    return settings


def position_limit(folder: Path) -> int | None:
    """Return how many positions config.json says the model has, or None if it does not say."""
    config = read_json(folder / "config.json") or {}
    limit = config.get("max_position_embeddings")
    if not isinstance(limit, int) or limit < 1:
        return None
    return limit - 2 if config.get("model_type") in OFFSET_POSITIONS else limit


def configured_pooling(folder: Path) -> str:
    """Return the pooling that a sentence-transformers folder declares; mean if it does not."""
    config = read_json(folder / "1_Pooling" / "config.json") or {}
    return "cls" if config.get("pooling_mode_cls_token") is True else "mean"


def model_name(folder: Path) -> str:
    """Return a folder's name; in a hub cache, the name of the repository."""
    repository = folder.absolute().parent.parent.name
    if folder.absolute().parent.name == "snapshots" and repository.startswith("models--"):
        return repository.rsplit("--", 1)[-1]
    return folder.absolute().name


def find_weights(folder: Path, precision: str) -> Path | None:
    """Return the graph of this precision, or None."""
    paths = (folder / name for name in WEIGHTS_FILES[precision])
    return next((path for path in paths if path.is_file()), None)


def missing_files(folder: Path) -> list[str]:
    """Name what a folder lacks to be a model."""
    missing = [] if find_weights(folder, "fp32") else [WEIGHTS_FILES["fp32"][0]]
    return missing if (folder / TOKENIZER_FILE).is_file() else [*missing, TOKENIZER_FILE]


def fingerprint(settings: ModelSettings, weights: str, tokenizer: str, precision: str) -> str:
    """Return name@12 hex digits over everything that a score or a vector depends on.

    `weights` and `tokenizer` are digests of the files in use.
    """
    parts = {
        **dataclasses.asdict(settings),
        "weights": weights,
        "tokenizer": tokenizer,
        "precision": precision,
        "graph": GRAPH_VERSIONS[settings.kind],
    }
    encoded = json.dumps(parts, sort_keys=True).encode()
    return f"{settings.name}@{hashlib.blake2b(encoded, digest_size=6).hexdigest()}"


def digest_weights(path: Path) -> str:
    """Return the sha256 of a graph, its external data files included."""
    sidecars = sorted(path.parent.glob(f"{path.name}[_.]*"))
    state = hashlib.sha256()
    for file in (path, *sidecars):
        state.update(digest_file(file).encode())
    return state.hexdigest() if sidecars else digest_file(path)


def digest_file(path: Path) -> str:
    """Return the sha256 of a file, in hex."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object, or None where there is no such file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} does not hold a JSON object")
    return value
