"""The models of the benchmarks, as folders that every contender can load."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper

from benchmarks.encoders import MINILM_L6, TINYBERT_L2, random_weights, save_model
from deployments.inference.bert_graphs import Shape
from deployments.inference.resolving import resolve_model

PULLED = "ms-marco-MiniLM-L-12-v2"
MINILM_L12 = Shape("MiniLM-L12", 12, 384, 12, 1536)
SHAPES = {shape.name: shape for shape in (MINILM_L6, TINYBERT_L2, MINILM_L12)}
DEQUANTISED = "_quantized_fp32"


@dataclass(frozen=True, slots=True)
class Model:
    """A model's folder and its shape."""

    folder: Path
    shape: Shape

    @property
    def name(self) -> str:
        return self.shape.name


def make_model(name: str, parent: Path) -> Model:
    """Write the folder of one of SHAPES: random weights, or those of the pulled model.

    The tokenizer is the pulled model's for all.
    """
    shape, pulled = SHAPES[name], resolve_model(PULLED)
    tokenizer, folder = pulled / "tokenizer.json", parent / name
    if shape != MINILM_L12:
        return Model(save_model(folder, shape, random_weights(shape), tokenizer), shape)
    save_model(folder, shape, read_weights(onnx.load(pulled / "model.onnx")), tokenizer)
    # Whoever reads ONNX gets the graph as it was exported, not one of our making.
    shutil.copyfile(pulled / "model.onnx", folder / "model.onnx")
    return Model(folder, shape)


def read_weights(proto: ModelProto) -> dict[str, NDArray[np.float32]]:
    """Return a BERT graph's weights under the names of the transformers library.

    Exports keep all names but those of the dense weights, which they also turn: the bias that is
    added to a product tells whose it is.
    """
    constants = {one.name: numpy_helper.to_array(one) for one in proto.graph.initializer}
    producers = {node.output[0]: node for node in proto.graph.node}
    weights = {
        name.removesuffix(DEQUANTISED): value
        for name, value in constants.items()
        if name.startswith(("bert.", "classifier."))
    }
    for node in proto.graph.node:
        biases = [name for name in node.input if name.endswith(".bias") and name in constants]
        for bias in biases if node.op_type == "Add" else ():
            product = producers[next(name for name in node.input if name != bias)]
            if product.op_type == "MatMul":
                weights[f"{bias.removesuffix('bias')}weight"] = constants[product.input[1]].T
    return weights
