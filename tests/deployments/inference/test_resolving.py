"""What a model may be called, and what is said where there is none of that name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.inference.errors import ModelError
from deployments.inference.resolving import resolve_model


def test_a_local_folder_is_a_model(make_model: Callable[..., Path]) -> None:
    folder = make_model()
    assert resolve_model(str(folder)) == folder


def test_a_hub_folder_keeps_its_graph_in_a_folder_of_its_own(
    make_model: Callable[..., Path],
) -> None:
    folder = make_model()
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    assert resolve_model(str(folder)) == folder


def test_what_a_local_folder_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.onnx and tokenizer\.json"):
        resolve_model(str(tmp_path))


def test_an_unknown_model_is_told_the_three_choices() -> None:
    with pytest.raises(ModelError) as caught:
        resolve_model("no-such-model")
    assert str(caught.value) == (
        "there is no model 'no-such-model': name a bundle (ms-marco-MiniLM-L-12-v2, "
        "bge-small-en-v1.5, splade-tiny-msmarco), a local folder with model.onnx and "
        "tokenizer.json, or a hub id (org/name) where the hub can be reached"
    )


def test_a_hub_that_cannot_be_reached_is_told_the_three_choices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"cannot fetch no\.such/model--x from the hub .*bundle"):
        resolve_model("no.such/model--x")
