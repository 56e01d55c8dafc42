"""Attention of a single token without keys and values: their weights are applied to it instead.

Of a layer that is cut to the first token, the projections of all tokens to keys and values are
what is left of the arithmetic, and one query needs neither. With keys K x + b and values V x + c
of the states x, by head:

    q . (K x + b) = (K^T q) . x + q . b     where q . b is the same for all tokens: softmax drops it
    sum_t p_t (V x_t + c) = V (sum_t p_t x_t) + c     since the probabilities p sum to 1

so the weights meet one vector a head, and the tokens' states are read as they are. Exact; only
the order of the sums differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from deployments.inference.conversion import remove_unused
from deployments.inference.cutting import ELEMENTWISE, Facts, attribute, learn_facts

PREFIX = "onepass.absorbed"
KEYS, VALUES, BIAS = (f"{PREFIX}.{name}" for name in ("keys", "values", "bias"))
# Shapes that merge (batch, heads, 1, n) into (batch, heads, n), and that split it again.
MERGED, SINGLE = f"{PREFIX}.merged", f"{PREFIX}.single"

# What stands between a product with keys or values and the states, and how heads are transposed:
# keys are scaled or not, and torch's newer exporter turns them twice.
PROJECTION = ("Transpose", "Reshape", "Add", "MatMul")
TURNED = ("Reshape", "Transpose", "Reshape")
KEY_PATHS = (
    (PROJECTION, [0, 2, 3, 1]),
    (("Mul", *PROJECTION), [0, 2, 3, 1]),
    (("Mul", *TURNED, *PROJECTION), [0, 2, 1, 3]),
)
VALUE_PATHS = ((PROJECTION, [0, 2, 1, 3]),)

Paths = Sequence[tuple[Sequence[str], Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Projection:
    """Keys or values: `states` (batch, tokens, width) times `weight` plus `bias`, by head.

    `weight` is (width, heads, size), `bias` (heads, 1, size); `scale`, if any, is a name by which
    the result is multiplied.
    """

    states: str
    weight: NDArray[np.generic]
    bias: NDArray[np.generic]
    scale: str | None


def absorb_projections(model: ModelProto) -> bool:
    """Rid the last layer of its keys and values, in place; whether it was recognised.

    The layer has to be cut to the first token. If it was not recognised, the model is unchanged.
    """
    graph = model.graph
    facts = learn_facts(graph)
    attention = find_attention(graph, facts)
    if attention is None:
        return False
    scores, mixed = attention
    keys = find_projection(scores.input[1], KEY_PATHS, facts)
    values = find_projection(mixed.input[1], VALUE_PATHS, facts)
    if keys is None or values is None:
        return False
    instead = {
        scores.output[0]: score_nodes(scores, keys),
        mixed.output[0]: mix_nodes(mixed, values),
    }
    nodes = [new for node in graph.node for new in instead.get(node.output[0], [node])]
    del graph.node[:]
    graph.node.extend(nodes)
    add_constants(graph, keys, values)
    remove_unused(graph)
    return True


def find_attention(graph: GraphProto, facts: Facts) -> tuple[NodeProto, NodeProto] | None:
    """Return the products queries x keys and probabilities x values of the last layer."""
    softmax = next((node for node in reversed(graph.node) if node.op_type == "Softmax"), None)
    if softmax is None:
        return None
    readers = [node for node in graph.node if softmax.output[0] in node.input]
    scores = find_product(softmax.input[0], facts)
    if scores is None or len(readers) != 1 or readers[0].op_type != "MatMul":
        return None
    return scores, readers[0]


def find_product(name: str, facts: Facts) -> NodeProto | None:
    """Return the product behind scaling and masking."""
    node = facts.makers.get(name)
    if node is None or node.op_type == "MatMul":
        return node
    if node.op_type not in ELEMENTWISE:
        return None
    found = (find_product(before, facts) for before in node.input)
    return next((product for product in found if product is not None), None)


def find_projection(name: str, paths: Paths, facts: Facts) -> Projection | None:
    """Return the projection that keys or values come from by one of the paths."""
    for op_types, order in paths:
        nodes = trace(name, op_types, facts)
        if nodes is not None and attribute(nodes[-4], "perm", []) == order:
            return read_projection(nodes, facts)
    return None


def read_projection(nodes: Sequence[NodeProto], facts: Facts) -> Projection | None:
    """Return the projection of a path's nodes, or None if its weights are not constants."""
    _, reshape, biased, product = nodes[-4:]
    weight = facts.constants.get(product.input[1])
    bias = facts.constants.get(fixed_input(biased, facts))
    *_, size = facts.last_two(reshape.input[1]) or [0]
    if weight is None or bias is None or size < 1:
        return None
    weights, biases = numpy_helper.to_array(weight), numpy_helper.to_array(bias)
    return Projection(
        states=product.input[0],
        weight=weights.reshape(len(weights), -1, size),
        bias=biases.reshape(-1, 1, size),
        scale=fixed_input(nodes[0], facts) if nodes[0].op_type == "Mul" else None,
    )


def trace(name: str, op_types: Sequence[str], facts: Facts) -> list[NodeProto] | None:
    """Return the nodes that a value comes from, last first, if they are of these types."""
    nodes: list[NodeProto] = []
    for op_type in op_types:
        node = facts.makers.get(name)
        if node is None or node.op_type != op_type:
            return None
        nodes.append(node)
        name = next((before for before in node.input if before not in facts.fixed), "")
    return nodes


def fixed_input(node: NodeProto, facts: Facts) -> str:
    return next((name for name in node.input if name in facts.fixed), "")


def score_nodes(scores: NodeProto, keys: Projection) -> list[NodeProto]:
    """Queries (batch, heads, 1, size) to scores (batch, heads, 1, tokens), by way of the states."""
    query, made = scores.input[0], scores.output[0]
    names = [f"{made}.{step}" for step in ("scaled", "wide", "merged", "states", "product")]
    scaled, wide, merged, states, product = names
    scaling = [helper.make_node("Mul", [query, keys.scale], [scaled])] if keys.scale else []
    return [
        *scaling,
        helper.make_node("MatMul", [scaled if keys.scale else query, KEYS], [wide]),
        helper.make_node("Reshape", [wide, MERGED], [merged]),
        helper.make_node("Transpose", [keys.states], [states], perm=[0, 2, 1]),
        helper.make_node("MatMul", [merged, states], [product]),
        helper.make_node("Reshape", [product, SINGLE], [made]),
    ]


def mix_nodes(mixed: NodeProto, values: Projection) -> list[NodeProto]:
    """Probabilities (batch, heads, 1, tokens) to (batch, heads, 1, size), by way of the states."""
    probabilities, made = mixed.input[0], mixed.output[0]
    names = [f"{made}.{step}" for step in ("merged", "states", "wide", "product")]
    merged, states, wide, product = names
    return [
        helper.make_node("Reshape", [probabilities, MERGED], [merged]),
        helper.make_node("MatMul", [merged, values.states], [states]),
        helper.make_node("Reshape", [states, SINGLE], [wide]),
        helper.make_node("MatMul", [wide, VALUES], [product]),
        helper.make_node("Add", [product, BIAS], [made]),
    ]


def add_constants(graph: GraphProto, keys: Projection, values: Projection) -> None:
    """Add the weights by head: keys (heads, size, width), values (heads, width, size)."""
    constants = {
        KEYS: keys.weight.transpose(1, 2, 0),
        VALUES: values.weight.transpose(1, 0, 2),
        BIAS: values.bias,
        MERGED: np.array([0, 0, -1]),
        SINGLE: np.array([0, 0, 1, -1]),
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
