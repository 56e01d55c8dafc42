"""From what a model is called to the folder that holds it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError

from deployments.inference.bundles import BUNDLES, bundle_folder, read_manifest
from deployments.inference.errors import ModelError
from deployments.inference.settings import TOKENIZER_FILE, WEIGHTS_FILES, missing_files

logger = logging.getLogger(__name__)

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
HUB_FILES = (
    "model.onnx*",
    "onnx/model.onnx*",
    TOKENIZER_FILE,
    "config.json",
    "1_Pooling/config.json",
)


def resolve_model(reference: str) -> Path:
    """Return the folder of a model: a local folder, a bundle's name, or a hub id (org/name).

    A bundle that is not there yet is pulled, which one log line says. ModelError if there is no
    such model or it cannot be fetched.
    """
    local = Path(reference).expanduser()
    if local.is_dir() and not missing_files(local):
        return local
    bundled = find_bundle(reference)
    if bundled is not None:
        return bundled
    if local.is_dir():
        raise ModelError(f"{local} lacks {' and '.join(missing_files(local))}")
    if HUB_ID.fullmatch(reference):
        return download_from_hub(reference)
    raise ModelError(f"there is no model {reference!r}: {choices()}")


def find_bundle(name: str) -> Path | None:
    """Return the folder of a bundle, pulled if it is not there; None if there is no such bundle."""
    if name not in BUNDLES:
        return None
    folder = bundle_folder(name)
    if read_manifest(BUNDLES[name], folder) is None:
        from deployments.inference.pulling import pull_all  # loads onnx, needed only here

        logger.info("model %s is not at %s yet: pulling it", name, folder)
        pull_all([name])
    return folder


def download_from_hub(model_id: str) -> Path:
    """Fetch a repository's graph, tokenizer and configuration; cached by the hub's own client."""
    try:
        folder = Path(snapshot_download(model_id, allow_patterns=list(HUB_FILES)))
    except (OSError, RuntimeError, HFValidationError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"cannot fetch {model_id} from the hub ({reason}): {choices()}") from error
    missing = missing_files(folder)
    if missing:
        raise ModelError(f"{model_id} on the hub lacks {' and '.join(missing)}: {choices()}")
    return folder


def choices() -> str:
    """Say which models can be named."""
    return (
        f"name a bundle ({', '.join(BUNDLES)}), a local folder with {WEIGHTS_FILES['fp32'][0]} "
        f"and {TOKENIZER_FILE}, or a hub id (org/name) where the hub can be reached"
    )
