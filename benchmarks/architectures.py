"""Cross-encoder graphs built as torch.onnx writes those of the transformers library, without torch.

The three families differ where exports do: how positions come about, how attention is scaled and
masked, what the head does.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import ModelProto, TensorProto

from deployments.inference.bert_graphs import (
    EMBEDDINGS,
    IDS,
    LOWEST,
    MASK,
    TYPES,
    Graph,
    Shape,
    Weights,
)

# RoBERTa's token id for padding; its positions start after it.
ROBERTA_PADDING = 1


def bert_graph(shape: Shape, weights: Weights, opset: int = 14) -> ModelProto:
    """BertForSequenceClassification, attention written out: logits (batch, 1)."""
    graph = Graph(shape, weights, opset)
    return classify(graph, graph.encode(), "Tanh", [IDS, MASK, TYPES])


def roberta_graph(shape: Shape, weights: Weights, opset: int = 14) -> ModelProto:
    """RobertaForSequenceClassification, attention as torch's sdpa is exported: logits (batch, 1).

    Takes BERT's names: its head has the arithmetic of BERT's pooler and classifier.
    """
    graph = Graph(shape, weights, opset)
    padding = graph.constant(np.int64(ROBERTA_PADDING))
    shown = graph.add("Not", graph.add("Equal", IDS, padding))
    real = graph.add("Cast", shown, to=TensorProto.INT64)
    counted = graph.add("CumSum", real, graph.constant(np.int64(1)))
    positions = graph.add("Add", graph.add("Mul", counted, real), padding)
    types = graph.constant(weights[f"{EMBEDDINGS}.token_type_embeddings.weight"][0])
    hidden = graph.embed(positions, types)
    bias = graph.additive_mask()
    for layer in range(shape.layers):
        query, key, value = graph.project(hidden, layer)
        scale = root_of_scale(graph, query)
        scaled = graph.add("Mul", query, scale), graph.add("Mul", key, scale)
        scores = graph.add("Add", graph.add("MatMul", *scaled), bias)
        hidden = graph.finish(hidden, scores, value, layer)
    return classify(graph, hidden, "Tanh", [IDS, MASK])


def distilbert_graph(shape: Shape, weights: Weights, opset: int = 14) -> ModelProto:
    """DistilBertForSequenceClassification, masked scores filled: logits (batch, 1).

    Takes BERT's names, less token types; its head is a dense layer, Relu and the classifier.
    """
    graph = Graph(shape, weights, opset)
    hidden = graph.embed(graph.first_positions(), None)
    absent = graph.add("Equal", MASK, graph.constant(np.int64(0)))
    absent = graph.add("Unsqueeze", absent, graph.constant(np.array([1, 2])))
    lowest = graph.constant(np.float32(LOWEST))
    scale = graph.constant(np.float32(math.sqrt(shape.width // shape.heads)))
    for layer in range(shape.layers):
        query, key, value = graph.project(hidden, layer)
        scores = graph.add("MatMul", graph.add("Div", query, scale), key)
        filled = graph.add("Expand", absent, graph.add("Shape", scores))
        hidden = graph.finish(hidden, graph.add("Where", filled, lowest, scores), value, layer)
    return classify(graph, hidden, "Relu", [IDS, MASK])


def root_of_scale(graph: Graph, query: str) -> str:
    """The fourth root of 1 / size of a head, the size read as it runs."""
    last, end = graph.constant(np.array([-1])), graph.constant(np.array([2**63 - 1]))
    size = graph.add("Slice", graph.add("Shape", query), last, end)
    root = graph.add("Sqrt", graph.add("Cast", size, to=TensorProto.FLOAT))
    return graph.add("Sqrt", graph.add("Div", graph.constant(np.ones(1, np.float32)), root))


def classify(graph: Graph, hidden: str, activation: str, inputs: list[str]) -> ModelProto:
    """The head over position 0, and the whole as a checked model."""
    first = graph.add("Gather", hidden, graph.constant(np.int64(0)), axis=1)
    pooled = graph.add(activation, gemm(graph, first, "bert.pooler.dense"))
    return graph.model(gemm(graph, pooled, "classifier"), "logits", ["batch", 1], inputs)


def gemm(graph: Graph, name: str, prefix: str) -> str:
    weight, bias = graph.weight(f"{prefix}.weight"), graph.weight(f"{prefix}.bias")
    return graph.add("Gemm", name, weight, bias, transB=1)
