"""A SPLADE encoder's graph, made from the weights of a BERT with a masked-language head.

The head stands in the graph: what it gives for each token is a number for each word of the
vocabulary, and all but the greatest of them would be carried out only to be thrown away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from deployments.inference.bert_graphs import (
    EMBEDDINGS,
    IDS,
    MASK,
    TYPES,
    Graph,
    Shape,
    Weights,
)
from deployments.inference.conversion import serialise
from deployments.inference.errors import ModelError

OUTPUT = "weights"
HEAD = "cls.predictions"

# What older checkpoints call a normalisation's weight and bias.
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}


def convert_splade(safetensors: bytes, config: bytes) -> bytes:
    """Return a serialised graph whose output `weights` is (batch, vocabulary), made from a
    BertForMaskedLM's weights and configuration. ModelError if they are of another kind."""
    weights = read_safetensors(safetensors)
    try:
        return serialise(splade_graph(read_shape(json.loads(config), weights), weights))
    except KeyError as error:
        raise ModelError(f"these are no weights of a BERT for masked words: no {error}") from error


def splade_graph(shape: Shape, weights: Weights) -> ModelProto:
    """max over tokens of log(1 + relu(logits)), the logits those of BertForMaskedLM.

    Formal, Lassance, Piwowarski and Clinchant, "SPLADE v2" (2021). Logarithm, relu and bias keep
    the order of numbers, so the greatest is taken first: the same number, and far less work.
    """
    graph = Graph(shape, weights)
    hidden = graph.gelu(graph.dense(graph.encode(), f"{HEAD}.transform.dense"))
    hidden = graph.normalise(hidden, f"{HEAD}.transform.LayerNorm")
    hidden = first_for_padding(graph, hidden)
    table = graph.constant(weights[f"{EMBEDDINGS}.word_embeddings.weight"].T.copy())
    greatest = graph.add("ReduceMax", graph.add("MatMul", hidden, table), axes=[1], keepdims=0)
    logits = graph.add("Add", greatest, graph.weight(f"{HEAD}.bias"))
    grown = graph.add("Add", graph.add("Relu", logits), graph.constant(np.float32(1)))
    sizes = ["batch", shape.vocabulary]
    return graph.model(graph.add("Log", grown), OUTPUT, sizes, [IDS, MASK, TYPES])


def first_for_padding(graph: Graph, hidden: str) -> str:
    """Put the first token's states in the place of padding: a repeat changes no maximum."""
    shown = graph.add("Cast", MASK, to=TensorProto.BOOL)
    shown = graph.add("Unsqueeze", shown, graph.constant(np.array([2])))
    first = graph.add("Gather", hidden, graph.constant(np.array([0])), axis=1)
    return graph.add("Where", shown, hidden, first)


def read_safetensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """Read float32 tensors: the header's length as 8 little-endian bytes, the header as JSON,
    then the raw numbers. ModelError for what is no such file."""
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header: dict[str, Any] = json.loads(content[8:start])
        entries = {name: each for name, each in header.items() if name != "__metadata__"}
        return {
            renamed(name): read_tensor(memoryview(content)[start:], each)
            for name, each in entries.items()
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"this is no safetensors file of float32 numbers: {error}") from error


def read_tensor(numbers: memoryview, entry: Mapping[str, Any]) -> NDArray[np.float32]:
    if entry["dtype"] != "F32":
        raise ValueError("another type of number")
    first, last = entry["data_offsets"]
    return np.frombuffer(numbers[first:last], "<f4").reshape(entry["shape"])


def renamed(name: str) -> str:
    for old, new in OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def read_shape(config: Mapping[str, Any], weights: Weights) -> Shape:
    """Return the sizes that a configuration states; the tables say their own."""
    vocabulary, width = weights[f"{EMBEDDINGS}.word_embeddings.weight"].shape
    return Shape(
        name=str(config["model_type"]),
        layers=config["num_hidden_layers"],
        width=width,
        heads=config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        vocabulary=vocabulary,
        positions=len(weights[f"{EMBEDDINGS}.position_embeddings.weight"]),
    )
