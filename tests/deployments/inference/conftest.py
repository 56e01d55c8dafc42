"""A tiny BERT-like model built from nothing, and the real bundles, pulled once."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from deployments.inference.bundles import BUNDLES
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.dense_encoder import DenseEncoder
from deployments.inference.pulling import pull_all
from deployments.inference.sessions import Device
from tests.deployments.inference.frames import BERT_SPECIAL, word_piece

WORDS = ["berlin", "people", "museum", "city", "river", "old", "new", "the", "of", "in"]
LETTERS = list(string.ascii_lowercase)
PIECES = [*WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
VOCABULARY = [*BERT_SPECIAL, *PIECES]
WIDTH = 8


def build_tokenizer() -> Tokenizer:
    return word_piece(PIECES)


def build_graph(outputs: int, types: bool, hidden: bool) -> bytes:
    """Embeddings, masked mean, tanh layer, classifier; or the embeddings alone if `hidden`."""
    random = np.random.default_rng(7)
    weights = {
        "words": random.normal(size=(len(VOCABULARY), WIDTH)),
        "segments": random.normal(size=(2, WIDTH)),
        "dense": random.normal(size=(WIDTH, WIDTH)),
        "classifier": random.normal(size=(WIDTH, outputs)),
    }
    constants = [
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    ]
    axes = [numpy_helper.from_array(np.array([axis], np.int64), f"axis{axis}") for axis in (-1, 1)]
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["embedded"])]
    last = "embedded"
    if types:
        nodes.append(helper.make_node("Gather", ["segments", "token_type_ids"], ["typed"]))
        nodes.append(helper.make_node("Mul", ["embedded", "typed"], ["joined"]))
        last = "joined"
    nodes += mask_nodes(last) if hidden else pool_nodes(last)
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    shape: list[str | int | None] = ["batch", "tokens", WIDTH] if hidden else ["batch", outputs]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "tokens"]) for n in names],
        [
            helper.make_tensor_value_info(
                "last_hidden_state" if hidden else "logits", TensorProto.FLOAT, shape
            )
        ],
        [*constants, *axes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def mask_nodes(last: str) -> list[NodeProto]:
    make = helper.make_node
    return [
        make("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        make("Unsqueeze", ["mask", "axis-1"], ["mask3"]),
        make("Mul", [last, "mask3"], ["last_hidden_state"]),
    ]


def pool_nodes(last: str) -> list[NodeProto]:
    make = helper.make_node
    return [
        make("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        make("Unsqueeze", ["mask", "axis-1"], ["mask3"]),
        make("Mul", [last, "mask3"], ["kept"]),
        make("ReduceSum", ["kept", "axis1"], ["total"], keepdims=0),
        make("ReduceSum", ["mask", "axis1"], ["count"], keepdims=1),
        make("Div", ["total", "count"], ["mean"]),
        make("MatMul", ["mean", "dense"], ["layer"]),
        make("Tanh", ["layer"], ["active"]),
        make("MatMul", ["active", "classifier"], ["logits"]),
    ]


@pytest.fixture
def tokenizer_path(tmp_path: Path) -> Path:
    """A tokenizer.json that pads to 64 and truncates to 12, as exported files often do."""
    tokenizer = build_tokenizer()
    tokenizer.enable_padding(length=64, pad_id=0, pad_token="[PAD]")
    tokenizer.enable_truncation(12)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture
def make_model(tmp_path: Path) -> Callable[..., Path]:
    """Write a model's folder: make_model(name, outputs=1, types=True, hidden=False, settings)."""

    def make(
        name: str = "tiny",
        outputs: int = 1,
        types: bool = True,
        hidden: bool = False,
        settings: dict[str, object] | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.onnx").write_bytes(build_graph(outputs, types, hidden))
        build_tokenizer().save(str(folder / "tokenizer.json"))
        if settings is not None:
            own = {"name": name, "kind": "dense" if hidden else "cross_encoder", "max_tokens": 64}
            manifest = {"settings": {**own, **settings}}
            (folder / "onepass.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    return make


@pytest.fixture(scope="session")
def bundles() -> dict[str, Path]:
    """The real bundles, with fp16 weights where there are any, in the user's own models folder."""
    return dict(zip(BUNDLES, pull_all(tuple(BUNDLES), fp16=True), strict=True))


@pytest.fixture(scope="session")
def minilm(bundles: dict[str, Path]) -> CrossEncoder:
    return CrossEncoder.load(bundles["ms-marco-MiniLM-L-12-v2"], Device("cpu", threads=2))


@pytest.fixture(scope="session")
def bge(bundles: dict[str, Path]) -> DenseEncoder:
    return DenseEncoder.load(bundles["bge-small-en-v1.5"], Device("cpu", threads=2))
