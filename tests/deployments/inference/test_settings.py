"""A model's settings: stored, assumed, overridden; its name and its fingerprint."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployments.inference.errors import ModelError
from deployments.inference.settings import (
    ModelSettings,
    fingerprint,
    model_name,
    read_settings,
)
from deployments.inference.truncation import Truncation


def write_config(folder: Path, content: dict[str, object], name: str = "config.json") -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_stored_settings_are_used(make_model: Callable[..., Path]) -> None:
    folder = make_model(settings={"activation": "identity", "max_tokens": 48})
    assert read_settings(folder, "cross_encoder") == ModelSettings(
        name="tiny", kind="cross_encoder", max_tokens=48, activation="identity"
    )


def test_overrides_win_and_none_does_not_count(make_model: Callable[..., Path]) -> None:
    folder = make_model(settings={"activation": "identity", "max_tokens": 48})
    settings = read_settings(folder, "cross_encoder", activation="sigmoid", max_tokens=None)
    assert (settings.activation, settings.max_tokens) == ("sigmoid", 48)


def test_where_texts_are_cut_is_stored_or_overridden(make_model: Callable[..., Path]) -> None:
    folder = make_model(settings={"truncation_side": "left", "max_query_tokens": 9})
    assert read_settings(folder, "cross_encoder").truncation == Truncation("left", None, 9)
    settings = read_settings(
        folder,
        "cross_encoder",
        truncation_side="right",
        max_query_tokens=None,
        max_document_tokens=30,
    )
    assert settings.truncation == Truncation("right", 30, 9)


def test_the_limits_that_apply_are_logged(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_model(settings={"max_document_tokens": 500})
    with caplog.at_level(logging.INFO):
        read_settings(folder, "cross_encoder", truncation_side="left")
    assert (
        "tiny has a window of 64 tokens, queries of 32 at most, documents of 64 at most, "
        "cut on the left"
    ) in caplog.text


def test_defaults_are_assumed_and_logged(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        settings = read_settings(make_model(), "cross_encoder")
    assert settings == ModelSettings(name="tiny", kind="cross_encoder")
    assert (settings.activation, settings.max_tokens) == ("sigmoid", 512)
    assert "has no onepass.json: assuming activation sigmoid, 512 tokens" in caplog.text


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"max_position_embeddings": 128}, 128),
        ({"max_position_embeddings": 8192}, 512),
        ({"max_position_embeddings": 514, "model_type": "roberta"}, 512),
        ({"max_position_embeddings": 130, "model_type": "xlm-roberta"}, 128),
        ({"max_position_embeddings": "many"}, 512),
    ],
)
def test_the_assumed_window_fits_the_models_positions(
    make_model: Callable[..., Path], config: dict[str, object], window: int
) -> None:
    folder = make_model()
    write_config(folder, config)
    assert read_settings(folder, "cross_encoder").max_tokens == window


def test_the_window_may_grow_to_what_the_model_was_made_for(
    make_model: Callable[..., Path],
) -> None:
    folder = make_model()
    write_config(folder, {"max_position_embeddings": 4096})
    assert read_settings(folder, "cross_encoder", max_tokens=4096).max_tokens == 4096
    with pytest.raises(ModelError, match="max_tokens of tiny can be 4096 at most"):
        read_settings(folder, "cross_encoder", max_tokens=4097)


def test_no_window_is_wider_than_the_widest(make_model: Callable[..., Path]) -> None:
    folder = make_model()
    write_config(folder, {"max_position_embeddings": 32_768})
    assert read_settings(folder, "cross_encoder", max_tokens=8192).max_tokens == 8192
    with pytest.raises(ModelError, match="max_tokens of tiny can be 8192 at most"):
        read_settings(folder, "cross_encoder", max_tokens=8193)


def test_a_window_that_nothing_is_known_about_is_taken_as_given(
    make_model: Callable[..., Path],
) -> None:
    assert read_settings(make_model(), "cross_encoder", max_tokens=1024).max_tokens == 1024


def test_declared_pooling_is_used_and_mean_is_assumed(make_model: Callable[..., Path]) -> None:
    folder = make_model(hidden=True)
    assert read_settings(folder, "dense").pooling == "mean"
    write_config(folder, {"pooling_mode_cls_token": True}, "1_Pooling/config.json")
    assert read_settings(folder, "dense").pooling == "cls"


def test_a_model_of_another_kind_is_refused(make_model: Callable[..., Path]) -> None:
    folder = make_model(hidden=True, settings={})
    with pytest.raises(ModelError, match="tiny is a dense model, and a cross_encoder model"):
        read_settings(folder, "cross_encoder")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"activation": "softmax"}, "activation of tiny must be one of sigmoid, identity"),
        ({"pooling": "max"}, "pooling of tiny must be one of cls, mean"),
        ({"max_tokens": 0}, "max_tokens of tiny must be a positive whole number"),
        ({"max_tokens": True}, "max_tokens of tiny must be a positive whole number"),
        ({"max_query_tokens": 0}, "max_query_tokens of tiny must be a positive whole number"),
        ({"max_document_tokens": "9"}, "max_document_tokens of tiny must be a positive whole"),
        ({"truncation_side": "both"}, "truncation_side of tiny must be one of right, left"),
        ({"max_tokens": 8193}, "max_tokens of tiny can be 8192 at most"),
        ({"colour": "red"}, "onepass.json is not usable"),
    ],
)
def test_wrong_settings_are_refused(
    make_model: Callable[..., Path], wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_settings(make_model(settings=wrong), "cross_encoder")


def test_a_damaged_settings_file_is_named(make_model: Callable[..., Path]) -> None:
    folder = make_model()
    (folder / "onepass.json").write_text("{")
    with pytest.raises(ModelError, match=r"cannot read .*onepass\.json"):
        read_settings(folder, "cross_encoder")


def test_models_are_named_after_their_folder_or_hub_repository() -> None:
    cached = Path("/cache/models--BAAI--bge-small-en/snapshots/0123abcd")
    assert model_name(cached) == "bge-small-en"
    assert model_name(Path("/models/mine")) == "mine"


def test_a_fingerprint_changes_with_everything_a_score_depends_on() -> None:
    settings = ModelSettings(name="tiny", kind="cross_encoder")
    changed: list[dict[str, Any]] = [
        {"max_tokens": 256},
        {"truncation_side": "left"},
        {"max_query_tokens": 8},
        {"max_document_tokens": 8},
        {"activation": "identity"},
    ]
    prints = {
        fingerprint(settings, "w", "t", "fp32"),
        fingerprint(settings, "x", "t", "fp32"),
        fingerprint(settings, "w", "x", "fp32"),
        fingerprint(settings, "w", "t", "fp16"),
        *(fingerprint(replace(settings, **one), "w", "t", "fp32") for one in changed),
    }
    assert len(prints) == 4 + len(changed)
    assert fingerprint(settings, "w", "t", "fp32") in prints
    assert all(len(p) == len("tiny@") + 12 and p.startswith("tiny@") for p in prints)
