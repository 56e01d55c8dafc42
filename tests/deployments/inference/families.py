"""Tiny encoders of each family with one logit, and what they give for tokens made up here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from benchmarks.architectures import bert_graph, distilbert_graph, roberta_graph
from benchmarks.encoders import random_weights
from deployments.inference.absorbing import absorb_projections
from deployments.inference.bert_graphs import Shape
from deployments.inference.cutting import cut_to_first_token

TINY = Shape("tiny", layers=2, width=16, heads=2, intermediate=32, vocabulary=50, positions=64)
ONE_LAYER = Shape("one", layers=1, width=16, heads=2, intermediate=32, vocabulary=50, positions=64)
FAMILIES: Mapping[str, Callable[..., ModelProto]] = {
    "bert": bert_graph,
    "roberta": roberta_graph,
    "distilbert": distilbert_graph,
}
PADDING = {"bert": 0, "roberta": 1, "distilbert": 0}


def make(family: str, opset: int = 14, shape: Shape = TINY) -> ModelProto:
    return FAMILIES[family](shape, random_weights(shape, seed=3), opset)


def feeds(lengths: list[int], padding: int = 0) -> dict[str, NDArray[np.int64]]:
    """Rows of so many tokens, in two segments, padded to the longest."""
    ends = np.array(lengths)[:, None]
    places = np.arange(max(lengths))[None]
    ids = np.random.default_rng(sum(lengths)).integers(2, 50, (len(lengths), max(lengths)))
    return {
        "input_ids": np.where(places < ends, ids, padding),
        "attention_mask": (places < ends).astype(np.int64),
        "token_type_ids": ((places > ends // 2) & (places < ends)).astype(np.int64),
    }


def load(model: ModelProto, outputs: list[str] | None = None) -> Any:
    """Open a graph; `outputs` are wanted in place of its own, and may be any value in it."""
    if outputs is not None:
        model = ModelProto.FromString(model.SerializeToString())
        del model.graph.output[:]
        model.graph.output.extend(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs
        )
    return onnxruntime.InferenceSession(model.SerializeToString())


def run(session: Any, batch: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
    values: list[NDArray[np.float32]] = session.run(
        None, {entry.name: batch[entry.name] for entry in session.get_inputs()}
    )
    return values


def rows_by_weight(model: ModelProto) -> list[int]:
    """How many rows of one text of nine tokens each weight is multiplied with, in order."""
    weights = {weight.name for weight in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    dense = [node.output[0] for node in products if node.input[1] in weights]
    return [value.shape[-2] for value in run(load(model, dense), feeds([9]))]


def cut(model: ModelProto) -> ModelProto:
    """Cut in place; the model is returned."""
    assert cut_to_first_token(model)
    onnx.checker.check_model(model)
    return model


def absorbed(model: ModelProto) -> ModelProto:
    """Cut, and rid of the last layer's keys and values, in place; the model is returned."""
    assert absorb_projections(cut(model))
    onnx.checker.check_model(model)
    return model
