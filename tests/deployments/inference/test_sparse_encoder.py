"""Texts to weights of terms: against a reference in numpy, and on the real model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.encoders import random_weights, write_safetensors
from deployments.inference.bert_graphs import IDS, MASK, TYPES, Graph, Shape
from deployments.inference.errors import ModelError
from deployments.inference.sessions import Device
from deployments.inference.sparse_encoder import SparseEncoder, nonzero, pool_splade
from deployments.inference.splade_graphs import convert_splade, read_safetensors, splade_graph
from deployments.inference.tokens import PairTokenizer
from tests.deployments.inference.conftest import VOCABULARY, build_tokenizer
from tests.deployments.inference.numpy_bert import masked_language_logits

SHAPE = Shape("tiny", 2, 16, 2, 32, len(VOCABULARY), 64)
TEXTS = ["old city", "river " * 30, "", "berlin", "the new museum in the old city", "people"]


def masked_language_weights(seed: int = 1) -> dict[str, NDArray[np.float32]]:
    """A BERT for masked words; biases low enough that most terms weigh nothing."""
    random = np.random.default_rng(seed)
    width, head = SHAPE.width, "cls.predictions"
    body = {k: v for k, v in random_weights(SHAPE, seed).items() if "classifier" not in k}
    own = {
        f"{head}.transform.dense.weight": random.normal(size=(width, width)) / 4,
        f"{head}.transform.dense.bias": random.normal(size=width),
        f"{head}.transform.LayerNorm.weight": random.normal(1, 0.1, width),
        f"{head}.transform.LayerNorm.bias": random.normal(size=width),
        f"{head}.bias": random.normal(-8, 1, SHAPE.vocabulary),
    }
    return body | {name: values.astype(np.float32) for name, values in own.items()}


def logits_graph(weights: dict[str, NDArray[np.float32]]) -> bytes:
    """A masked-language model as it is exported: logits (batch, tokens, vocabulary)."""
    graph, head = Graph(SHAPE, weights), "cls.predictions"
    hidden = graph.gelu(graph.dense(graph.encode(), f"{head}.transform.dense"))
    hidden = graph.normalise(hidden, f"{head}.transform.LayerNorm")
    table = weights["bert.embeddings.word_embeddings.weight"].T.copy()
    logits = graph.add("MatMul", hidden, graph.constant(table))
    logits = graph.add("Add", logits, graph.weight(f"{head}.bias"))
    sizes = ["batch", "tokens", SHAPE.vocabulary]
    return bytes(graph.model(logits, "logits", sizes, [IDS, MASK, TYPES]).SerializeToString())


def save(folder: Path, graph: bytes) -> Path:
    folder.mkdir()
    (folder / "model.onnx").write_bytes(graph)
    build_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"name": "tiny", "kind": "sparse", "max_tokens": 64}
    (folder / "onepass.json").write_text(json.dumps({"settings": settings}))
    return folder


def reference(weights: dict[str, NDArray[np.float32]], folder: Path) -> list[Any]:
    """max over tokens of log(1 + relu(logits)), each text alone."""
    tokenizer = PairTokenizer(folder / "tokenizer.json", 64)
    pooled = []
    for one in tokenizer.encode_texts(TEXTS):
        logits = masked_language_logits(weights, SHAPE.heads, SHAPE.layers, one.ids.tolist())
        pooled.append(np.log1p(np.maximum(logits, 0)).max(axis=0))
    return pooled


def assert_same(found: SparseEncoder, expected: list[NDArray[np.float64]]) -> None:
    for vector, weights in zip(found.encode_documents(TEXTS), expected, strict=True):
        full = np.zeros(len(weights))
        full[vector.ids] = vector.weights
        np.testing.assert_allclose(full, weights, atol=1e-4)
        assert 0 < len(vector.ids) < len(weights)


def test_weights_without_a_graph_give_what_the_reference_gives(tmp_path: Path) -> None:
    weights = masked_language_weights()
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("Norm.bias", "Norm.beta"): each
        for name, each in weights.items()
    }
    write_safetensors(tmp_path / "model.safetensors", old)
    config = {
        "model_type": "bert",
        "num_hidden_layers": SHAPE.layers,
        "num_attention_heads": SHAPE.heads,
        "intermediate_size": SHAPE.intermediate,
    }
    content = (tmp_path / "model.safetensors").read_bytes()
    folder = save(tmp_path / "tiny", convert_splade(content, json.dumps(config).encode()))

    assert_same(SparseEncoder.load(folder, Device("cpu")), reference(weights, folder))


def test_a_graph_that_gives_logits_is_pooled_here(tmp_path: Path) -> None:
    weights = masked_language_weights()
    folder = save(tmp_path / "tiny", logits_graph(weights))

    assert_same(SparseEncoder.load(folder, Device("cpu")), reference(weights, folder))


def test_pooling_leaves_padding_and_negative_logits_out() -> None:
    logits = np.array([[[1, -1, 0], [3, -2, -5], [9, 9, 9]]], np.float32)
    pooled = pool_splade(logits, np.array([2]))
    np.testing.assert_allclose(pooled, [[np.log(4), 0, 0]], rtol=1e-6)
    vector = nonzero(pooled[0])
    assert vector.ids.tolist() == [0]
    assert vector.weights.tolist() == pytest.approx([np.log(4)])


def test_queries_and_documents_take_their_prefixes(tmp_path: Path) -> None:
    graph = splade_graph(SHAPE, masked_language_weights()).SerializeToString()
    folder = save(tmp_path / "tiny", bytes(graph))
    settings = {"name": "tiny", "kind": "sparse", "max_tokens": 64}
    manifest = {"settings": {**settings, "query_prefix": "old ", "document_prefix": "new "}}
    (folder / "onepass.json").write_text(json.dumps(manifest))
    model = SparseEncoder.load(folder, Device("cpu"))

    (query,), (document,) = model.encode_queries(["city"]), model.encode_documents(["city"])
    old, new = model.encode(["old city", "new city"])
    assert (query.ids.tolist(), document.ids.tolist()) == (old.ids.tolist(), new.ids.tolist())


def test_many_texts_keep_their_order(tmp_path: Path) -> None:
    graph = splade_graph(SHAPE, masked_language_weights()).SerializeToString()
    model = SparseEncoder.load(save(tmp_path / "tiny", bytes(graph)), Device("cpu"))
    texts = [f"river {'city ' * (n % 50)} {'ab'[n % 2] * (n % 7)}" for n in range(100)]

    forward, backward = model.encode(texts), model.encode(texts[::-1])[::-1]
    for one, other in zip(forward, backward, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
    assert model.encode([]) == []


def test_a_dense_or_scoring_model_is_refused(make_model: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match="is a dense model, and a sparse model is needed"):
        SparseEncoder.load(make_model(hidden=True, settings={}), Device("cpu"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05\0\0\0\0\0\0\0nope!",
        b'\x32\0\0\0\0\0\0\0{"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}xx',
    ],
)
def test_what_is_no_file_of_weights_is_refused(content: bytes) -> None:
    with pytest.raises(ModelError, match="no safetensors file of float32 numbers"):
        read_safetensors(content)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", random_weights(SHAPE))
    config = {"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2}
    encoded = json.dumps({**config, "intermediate_size": 32}).encode()
    with pytest.raises(ModelError, match="no weights of a BERT for masked words"):
        convert_splade((tmp_path / "model.safetensors").read_bytes(), encoded)


def test_the_bundled_model_weighs_the_words_that_matter(bundles: dict[str, Path]) -> None:
    model = SparseEncoder.load(bundles["splade-tiny-msmarco"], Device("cpu"))
    query = "How many people live in Berlin?"
    document = (
        "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square "
        "kilometers. "
    )
    (asked,), (told, other) = (
        model.encode_queries([query]),
        model.encode_documents([document, "New York City is famous for its museum of art."]),
    )
    names = model.graph.tokenizer.tokenizer.id_to_token
    strongest = [names(int(asked.ids[n])) for n in np.argsort(-asked.weights)[:3]]

    assert "berlin" in strongest
    assert (asked.dot(told) or 0) > (asked.dot(other) or 0)
    assert 5 <= len(asked.ids) <= 60
    assert 60 <= len(told.ids) <= 500
