"""BERT's encoder written as an ONNX graph, without torch: for models that come as weights alone.

Weights bear the names of the transformers library. The graph is the one that torch.onnx exports,
so whatever reads exported graphs reads these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Weights = Mapping[str, NDArray[np.float32]]

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
EMBEDDINGS = "bert.embeddings"
IR_VERSION = 8
EPSILON = 1e-12
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a transformer encoder."""

    name: str
    layers: int
    width: int
    heads: int
    intermediate: int
    vocabulary: int = 30522
    positions: int = 512


@dataclass(slots=True)
class Graph:
    """A graph under construction: each method adds nodes and returns the name they make.

    Hidden states are (batch, tokens, width), heads (batch, heads, tokens, width / heads).
    """

    shape: Shape
    weights: Weights
    opset: int = 14
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: NDArray[Any] | np.generic) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weight(self, name: str) -> str:
        self.constants[name] = self.weights[name]
        return name

    def first_positions(self) -> str:
        """0, 1, 2 … (1, tokens): a slice of the constant that holds them all."""
        every = self.constant(np.arange(self.shape.positions)[None])
        starts, axes = self.constant(np.array([0])), self.constant(np.array([1]))
        ends = self.add("Unsqueeze", self.size(IDS, 1), self.constant(np.array([0])))
        return self.add("Slice", every, starts, ends, axes)

    def size(self, name: str, axis: int) -> str:
        return self.add("Gather", self.add("Shape", name), self.constant(np.int64(axis)), axis=0)

    def embed(self, positions: str, types: str | None) -> str:
        words = self.add("Gather", self.weight(f"{EMBEDDINGS}.word_embeddings.weight"), IDS)
        if types is not None:
            words = self.add("Add", words, types)
        table = self.weight(f"{EMBEDDINGS}.position_embeddings.weight")
        total = self.add("Add", words, self.add("Gather", table, positions))
        return self.normalise(total, f"{EMBEDDINGS}.LayerNorm")

    def additive_mask(self) -> str:
        """0 where a token is, the lowest number where padding is: (batch, 1, 1, tokens)."""
        mask = self.add("Unsqueeze", MASK, self.constant(np.array([1])))
        mask = self.add("Unsqueeze", mask, self.constant(np.array([2])))
        absent = self.add(
            "Sub", self.constant(np.float32(1)), self.add("Cast", mask, to=TensorProto.FLOAT)
        )
        return self.add("Mul", absent, self.constant(np.float32(LOWEST)))

    def project(self, hidden: str, layer: int) -> tuple[str, str, str]:
        """Query and value by head, and the key transposed for the product with the query."""
        prefix = f"bert.encoder.layer.{layer}.attention.self"
        query, key, value = (
            self.split(self.dense(hidden, f"{prefix}.{name}"), transpose)
            for name, transpose in (
                ("query", (0, 2, 1, 3)),
                ("key", (0, 2, 3, 1)),
                ("value", (0, 2, 1, 3)),
            )
        )
        return query, key, value

    def attend(self, hidden: str) -> str:
        """All layers, attention written out."""
        bias = self.additive_mask()
        scale = self.constant(np.float32(math.sqrt(self.shape.width // self.shape.heads)))
        for layer in range(self.shape.layers):
            query, key, value = self.project(hidden, layer)
            scores = self.add("Div", self.add("MatMul", query, key), scale)
            hidden = self.finish(hidden, self.add("Add", scores, bias), value, layer)
        return hidden

    def encode(self) -> str:
        """BertModel: the hidden states of the last layer."""
        positions = self.first_positions()
        types = self.add("Gather", self.weight(f"{EMBEDDINGS}.token_type_embeddings.weight"), TYPES)
        return self.attend(self.embed(positions, types))

    def finish(self, hidden: str, scores: str, value: str, layer: int) -> str:
        """What follows the attention scores in a layer."""
        prefix = f"bert.encoder.layer.{layer}"
        attended = self.merge(self.add("MatMul", self.add("Softmax", scores, axis=-1), value))
        projected = self.dense(attended, f"{prefix}.attention.output.dense")
        attended = self.add("Add", projected, hidden)
        attended = self.normalise(attended, f"{prefix}.attention.output.LayerNorm")
        wide = self.gelu(self.dense(attended, f"{prefix}.intermediate.dense"))
        narrow = self.add("Add", self.dense(wide, f"{prefix}.output.dense"), attended)
        return self.normalise(narrow, f"{prefix}.output.LayerNorm")

    def split(self, name: str, transpose: tuple[int, ...]) -> str:
        heads = self.shape.heads
        sizes = self.sizes(name, heads, self.shape.width // heads)
        return self.add("Transpose", self.add("Reshape", name, sizes), perm=transpose)

    def merge(self, name: str) -> str:
        turned = self.add("Transpose", name, perm=(0, 2, 1, 3))
        return self.add("Reshape", turned, self.sizes(turned, self.shape.width))

    def sizes(self, name: str, *last: int) -> str:
        """The first two sizes of a tensor, read as it runs, then these."""
        axis = self.constant(np.array([0]))
        first = [self.add("Unsqueeze", self.size(name, i), axis) for i in (0, 1)]
        return self.add("Concat", *first, *(self.constant(np.array([n])) for n in last), axis=0)

    def dense(self, name: str, prefix: str) -> str:
        turned = self.constant(self.weights[f"{prefix}.weight"].T.copy())
        return self.add("Add", self.weight(f"{prefix}.bias"), self.add("MatMul", name, turned))

    def gelu(self, name: str) -> str:
        root, one, half = (self.constant(np.float32(value)) for value in (math.sqrt(2), 1, 0.5))
        shifted = self.add("Add", self.add("Erf", self.add("Div", name, root)), one)
        return self.add("Mul", self.add("Mul", name, shifted), half)

    def normalise(self, name: str, prefix: str) -> str:
        weight, bias = self.weight(f"{prefix}.weight"), self.weight(f"{prefix}.bias")
        if self.opset >= 17:
            return self.add("LayerNormalization", name, weight, bias, axis=-1, epsilon=EPSILON)
        centred = self.add("Sub", name, self.add("ReduceMean", name, axes=[-1]))
        squared = self.add("Pow", centred, self.constant(np.float32(2)))
        variance = self.add("ReduceMean", squared, axes=[-1])
        padded = self.add("Add", variance, self.constant(np.float32(EPSILON)))
        scaled = self.add("Div", centred, self.add("Sqrt", padded))
        return self.add("Add", self.add("Mul", scaled, weight), bias)

    def model(self, last: str, output: str, sizes: Sequence[Any], inputs: list[str]) -> ModelProto:
        """The whole as a checked model that gives `last` under the name `output`."""
        self.nodes.append(helper.make_node("Identity", [last], [output]))
        fed = ["batch", "tokens"]
        model = helper.make_model(
            helper.make_graph(
                self.nodes,
                self.shape.name,
                [helper.make_tensor_value_info(name, TensorProto.INT64, fed) for name in inputs],
                [helper.make_tensor_value_info(output, TensorProto.FLOAT, list(sizes))],
                [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
            ),
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=IR_VERSION,
            producer_name="pytorch",
        )
        onnx.checker.check_model(model)
        return model
