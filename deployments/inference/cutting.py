"""The last layer of a cross-encoder, computed for the first token alone.

The scores are read from the first token's last hidden state, so of the last layer only that
token's query, attention row, residuals, norms and feed-forward matter; keys and values are those
of all tokens. Nothing is approximated: what is left out was never read.

From the scores backwards, each value is asked what its readers need of it: all tokens, or the
first alone. A node whose readers all need the first alone, and which treats each token by itself,
needs no more than that of its inputs: it stays as it is and gets fewer rows. Where readers
differ, or the operator is not known here, all is computed and the first token sliced from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

from deployments.inference.conversion import remove_unused

# Key of the metadata by which a cut graph is known.
CUT = "onepass.cut"
# Constants of a cut graph: where slices begin and end.
FIRST, SECOND = f"{CUT}.first", f"{CUT}.second"

# What is needed of a value: all of it, its last size alone, or the first token alone. The last is
# said by the axis of the tokens, counted from the end so that broadcasting leaves it in place; of
# a shape's own value, it says that the shape of the first token's part is needed.
ALL, LAST_SIZE = 0, 1
ROWS = -2  # hidden states (batch, tokens, width), and heads (batch, heads, tokens, size)
SPLIT_ROWS = -3  # hidden states split into heads, (batch, tokens, heads, size)

# What a node needs of each of its inputs; None for one that it does without.
Needs = Sequence[int | None]


def cut_to_first_token(model: ModelProto) -> bool:
    """Leave the other tokens out of the last layer, in place; whether the layer was recognised.

    If it was not, the model is unchanged. It has to hold its weights itself.
    """
    graph = model.graph
    facts = learn_facts(graph)
    head = find_head(graph, facts)
    if head is None or has_branches(graph):
        return False
    plan = make_plan(graph, facts, head)
    if not any(node.op_type == "Softmax" and node.output[0] in plan.cut for node in graph.node):
        return False
    rewrite(graph, facts, plan)
    model.metadata_props.add(key=CUT, value="first token")
    return True


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a graph's names before it runs.

    `fixed` are those that follow from constants and sizes alone, and hold nothing of any token.
    """

    constants: Mapping[str, TensorProto]
    makers: Mapping[str, NodeProto]
    fixed: frozenset[str]

    def integers(self, name: str) -> list[int] | None:
        """Return a constant's numbers, or None if the name is not a constant."""
        known = self.constants.get(name)
        return None if known is None else numpy_helper.to_array(known).ravel().tolist()

    def last_two(self, shape: str) -> list[int]:
        """Return the last two numbers of a shape; fewer if they are not constants."""
        maker = self.makers.get(shape)
        if maker is not None and maker.op_type == "Concat":
            return [size for name in maker.input[-2:] for size in self.integers(name) or ()]
        return (self.integers(shape) or [])[-2:]

    def made_by(self, name: str, op_type: str) -> bool:
        return name in self.makers and self.makers[name].op_type == op_type


@dataclass(frozen=True, slots=True)
class Plan:
    """What is needed of each name, and which names hold the first token alone.

    `needs` says, by a node's first output, what nodes that are cut need of their inputs; the
    head is one of them, though what it makes is as it was.
    """

    wanted: Mapping[str, set[int]]
    needs: Mapping[str, Needs]
    cut: frozenset[str]

    def slices(self, name: str) -> list[int]:
        """Return the axes along which the first token has to be sliced from a whole value."""
        if name in self.cut:
            return []
        return sorted(axis for axis in self.wanted.get(name, ()) if axis < ALL)


def learn_facts(graph: GraphProto) -> Facts:
    constants = {weight.name: weight for weight in graph.initializer}
    fixed = set(constants)
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
        if node.op_type == "Shape" or all(name in fixed for name in node.input if name):
            fixed.update(node.output)
    makers = {name: node for node in graph.node for name in node.output}
    return Facts(constants, makers, frozenset(fixed))


def find_head(graph: GraphProto, facts: Facts) -> str | None:
    """Return the name of the first token of the last hidden states (batch, tokens, width)."""
    for node in reversed(graph.node):
        bounds = [facts.integers(name) for name in node.input[1:]]
        gathered = node.op_type == "Gather" and bounds == [[0]] and attribute(node, "axis", 0) == 1
        if gathered or (node.op_type == "Slice" and bounds == [[0], [1], [1]]):
            return str(node.output[0])
    return None


def has_branches(graph: GraphProto) -> bool:
    """Whether a node holds a graph of its own, whose readers are not seen here."""
    kinds = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    return any(one.type in kinds for node in graph.node for one in node.attribute)


def make_plan(graph: GraphProto, facts: Facts, head: str) -> Plan:
    """Ask, from the outputs backwards, what is needed of each value."""
    wanted = defaultdict[str, set[int]](set)
    needs: dict[str, Needs] = {}
    cut: set[str] = set()
    for output in graph.output:
        wanted[output.name].add(ALL)
    for node in reversed(graph.node):
        asked = [wanted[name] for name in node.output if name in wanted]
        if not asked:
            continue
        fewer = first_token_needs(node, set[int]().union(*asked), facts, head)
        if fewer is not None:
            needs[node.output[0]] = fewer
            cut.update(name for name in node.output if name != head)
        for name, need in zip(node.input, fewer or all_needs(node, asked, facts), strict=True):
            if name and need is not None:
                wanted[name].add(need)
    return Plan(dict(wanted), needs, frozenset(cut))


def first_token_needs(node: NodeProto, asked: set[int], facts: Facts, head: str) -> Needs | None:
    """Return what a node needs to make the first token's part, or None if it has to make all."""
    if node.output[0] == head:
        return [ROWS, *[ALL] * (len(node.input) - 1)]
    axes = asked - {LAST_SIZE}
    rule = RULES.get(node.op_type)
    if rule is None or len(axes) != 1 or ALL in axes:
        return None
    return rule(node, axes.pop(), facts)


def all_needs(node: NodeProto, asked: Sequence[set[int]], facts: Facts) -> Needs:
    """Return what a node needs to make all of its output: all, save where it reads a last size."""
    if node.op_type == "Shape" and asked == [{LAST_SIZE}]:
        return [LAST_SIZE]
    needs = [ALL] * len(node.input)
    if node.op_type == "Slice" and facts.made_by(node.input[0], "Shape"):
        needs[0] = LAST_SIZE if facts.integers(node.input[1]) == [-1] else ALL
    return needs


def elementwise(node: NodeProto, axis: int, facts: Facts) -> Needs | None:
    return [ALL if name in facts.fixed else axis for name in node.input]


def over_width(node: NodeProto, axis: int, facts: Facts) -> Needs | None:
    """Softmax, norms and means over the last axis."""
    over = attribute(node, "axis", attribute(node, "axes", None))
    if over is None and len(node.input) > 1:
        over = facts.integers(node.input[1])
    if over not in (-1, [-1]) or attribute(node, "keepdims", 1) != 1:
        return None
    return [axis, *[ALL] * (len(node.input) - 1)]


def product(node: NodeProto, axis: int, facts: Facts) -> Needs | None:
    """A row of a product needs that row of its left side, and all of its right side."""
    return [ROWS, ALL] if axis == ROWS else None


def transpose(node: NodeProto, axis: int, facts: Facts) -> Needs | None:
    order = attribute(node, "perm", [])
    before = order[axis] - len(order) if order else ALL
    return [before] if before in (ROWS, SPLIT_ROWS) else None


def reshape(node: NodeProto, axis: int, facts: Facts) -> Needs | None:
    """Heads merged into hidden states, or hidden states split into heads."""
    if axis == ROWS:
        return [SPLIT_ROWS, None] if facts.made_by(node.input[0], "Transpose") else None
    return [ROWS, None] if len(facts.last_two(node.input[1])) == 2 else None


def expand(node: NodeProto, axis: int, facts: Facts) -> Needs | None:
    return [axis, axis] if facts.made_by(node.input[1], "Shape") else None


def shape_of(node: NodeProto, axis: int, facts: Facts) -> Needs | None:
    return [axis]


ELEMENTWISE = (
    *("Abs", "Add", "BiasGelu", "Cast", "Clip", "Div", "Erf", "Exp", "FastGelu", "Gelu"),
    *("Identity", "Max", "Min", "Mul", "Neg", "Pow", "QuickGelu", "Reciprocal", "Relu"),
    *("Sigmoid", "Sqrt", "Sub", "Tanh", "Where"),
)
RULES: Mapping[str, Callable[[NodeProto, int, Facts], Needs | None]] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(("LayerNormalization", "ReduceMean", "Softmax"), over_width),
    "Expand": expand,
    "MatMul": product,
    "Reshape": reshape,
    "Shape": shape_of,
    "Transpose": transpose,
}


def rewrite(graph: GraphProto, facts: Facts, plan: Plan) -> None:
    """Add the slices, let the nodes that are cut read them, and drop what nobody needs."""
    bounds = {axis_name(axis): [axis] for axis in (ROWS, SPLIT_ROWS)}
    constants = {FIRST: [0], SECOND: [1], **bounds}
    nodes = [one for entry in graph.input for one in slice_nodes(entry.name, plan)]
    for node in graph.node:
        needs = plan.needs.get(node.output[0], ())
        for index, need in enumerate(needs):
            if need in plan.slices(node.input[index]):
                node.input[index] = first_of(node.input[index], need)
        if None in needs:
            shape = f"{node.output[0]}.shape"
            constants[shape] = copied_shape(node, needs[0], facts)
            node.CopyFrom(helper.make_node("Reshape", [node.input[0], shape], node.output))
        nodes += [node, *(one for name in node.output for one in slice_nodes(name, plan))]
    del graph.node[:]
    graph.node.extend(nodes)
    for name, values in constants.items():
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    remove_unused(graph)


def copied_shape(reshape: NodeProto, need: int | None, facts: Facts) -> list[int]:
    """Return a constant shape whose first two sizes, as 0 says, are those of the input."""
    return [0, 0, *(facts.last_two(reshape.input[1]) if need == ROWS else [-1])]


def slice_nodes(name: str, plan: Plan) -> Iterator[NodeProto]:
    for axis in plan.slices(name):
        bounds = [FIRST, SECOND, axis_name(axis)]
        yield helper.make_node("Slice", [name, *bounds], [first_of(name, axis)])


def axis_name(axis: int) -> str:
    return f"{CUT}.axis{axis}"


def first_of(name: str, axis: int | None) -> str:
    return f"{name}.first{axis}"


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """Return an attribute's value, or the default where the node has none of that name."""
    values = (helper.get_attribute_value(one) for one in node.attribute if one.name == name)
    return next(values, default)
