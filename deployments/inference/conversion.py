"""ONNX graphs rewritten: dynamic int8 to plain fp32, and fp32 to fused fp16 for GPUs.

A dynamically quantised graph scales its activations by the whole batch, so a pair's score
depends on the pairs it is batched with. Scores are reused and batched across requests here,
hence every such graph is turned back into plain arithmetic before it is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper

from deployments.inference.errors import ModelError

QUANTISED_OPERATORS = frozenset(
    {
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "DynamicQuantizeMatMul",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "QLinearMatMul",
        "QuantizeLinear",
    }
)


def convert_to_fp32(model: bytes) -> bytes:
    """Return a serialised graph without quantisation: every weight is (q - zero point) * scale.

    Understands what dynamic quantisation writes: matrix products with quantised weights, and
    quantised embedding tables. ModelError if any quantised operator is left.
    """
    proto = onnx.load_model_from_string(model)
    links = trace_links(proto.graph)
    for node in list(proto.graph.node):
        if node.op_type == "MatMulInteger":
            restore_product(proto.graph, links, node)
        elif node.op_type == "DequantizeLinear":
            restore_table(proto.graph, links, node)
    remove_unused(proto.graph)
    left = Counter(n.op_type for n in proto.graph.node if n.op_type in QUANTISED_OPERATORS)
    if left:
        raise ModelError(f"this graph cannot be turned into fp32: it keeps {dict(left)}")
    onnx.checker.check_model(proto)
    return serialise(proto)


def fuse_fp16(model: bytes) -> bytes:
    """Return a BERT-like fp32 graph with fused operators and fp16 weights, for GPUs.

    Inputs and outputs keep their types. Logits differ from fp32 by at most 0.005.
    """
    proto = onnx.load_model_from_string(model)
    proto.producer_name = "pytorch"  # whose patterns are looked for; quantisers write their own
    try:
        from onnxruntime.transformers.optimizer import optimize_model  # slow, and only needed here

        fused = optimize_model(proto, model_type="bert", opt_level=0)
        fused.convert_float_to_float16(keep_io_types=True)
    except ImportError as error:
        raise ModelError(f"making fp16 weights needs another package: {error}") from error
    return serialise(fused.model)


def serialise(proto: ModelProto) -> bytes:
    """Serialise so that the same graph gives the same bytes, and so the same fingerprint."""
    return bytes(proto.SerializeToString(deterministic=True))


@dataclass(frozen=True, slots=True)
class Links:
    """Who makes and who reads each name of a graph, and its constant weights by name."""

    makers: Mapping[str, NodeProto]
    readers: Mapping[str, Sequence[NodeProto]]
    weights: Mapping[str, NDArray[np.generic]]

    def maker(self, names: Sequence[str], op_type: str) -> NodeProto | None:
        """Return the node of this type that makes one of these names."""
        found = (self.makers.get(name) for name in names)
        return next((node for node in found if node and node.op_type == op_type), None)

    def reader(self, node: NodeProto | None, op_type: str) -> NodeProto | None:
        """Return the only reader of a node's first output, if it is of this type."""
        readers = self.readers.get(node.output[0], ()) if node else ()
        return readers[0] if len(readers) == 1 and readers[0].op_type == op_type else None

    def weight(self, names: Sequence[str]) -> NDArray[np.generic] | None:
        """Return the first of these names that is a constant weight."""
        return next((self.weights[name] for name in names if name in self.weights), None)


def trace_links(graph: GraphProto) -> Links:
    readers: defaultdict[str, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    makers = {name: node for node in graph.node for name in node.output}
    weights = {weight.name: numpy_helper.to_array(weight) for weight in graph.initializer}
    return Links(makers, readers, weights)


def restore_product(graph: GraphProto, links: Links, product: NodeProto) -> None:
    """Turn DynamicQuantizeLinear, MatMulInteger, Cast and Mul back into one MatMul.

    What is undone is cast(q_a @ q_w) * (scale_a * scale_w); its last Mul becomes the MatMul of
    the float activation and the float weight, so readers keep the name they read.
    """
    activation = links.maker(product.input[:1], "DynamicQuantizeLinear")
    scaled = links.reader(links.reader(product, "Cast"), "Mul")
    scales = links.maker(scaled.input, "Mul") if scaled else None
    weight, zero_point = links.weight(product.input[1:2]), links.weight(product.input[3:4])
    scale = links.weight(scales.input) if scales else None
    if activation is None or scaled is None or weight is None or zero_point is None:
        return
    if scale is None:
        return
    name = f"{product.input[1]}_fp32"
    store_weight(graph, name, dequantise(weight, zero_point, scale))
    become(scaled, "MatMul", [activation.input[0], name])


def restore_table(graph: GraphProto, links: Links, node: NodeProto) -> None:
    """Turn Gather from a quantised table, then DequantizeLinear, into Gather from a float one."""
    gather = links.maker(node.input[:1], "Gather")
    table = links.weight(gather.input[:1]) if gather else None
    scale, zero_point = links.weight(node.input[1:2]), links.weight(node.input[2:3])
    if gather is None or table is None or scale is None or zero_point is None or scale.ndim:
        return
    name = f"{gather.input[0]}_fp32"
    store_weight(graph, name, dequantise(table, zero_point, scale))
    become(node, "Gather", [name, gather.input[1]])
    node.attribute.extend(gather.attribute)


def dequantise(
    weight: NDArray[np.generic], zero_point: NDArray[np.generic], scale: NDArray[np.generic]
) -> NDArray[np.float32]:
    """(q - zero point) * scale in float32; zero point and scale: one, or one a column."""
    centred = weight.astype(np.float32) - zero_point.astype(np.float32)
    return centred * scale.astype(np.float32)


def store_weight(graph: GraphProto, name: str, values: NDArray[np.float32]) -> None:
    """Add a constant weight once, however many nodes read it."""
    if all(weight.name != name for weight in graph.initializer):
        graph.initializer.append(numpy_helper.from_array(values, name))


def become(node: NodeProto, op_type: str, inputs: Sequence[str]) -> None:
    """Make a node another operator over other inputs, in place, with the same output."""
    node.op_type = op_type
    del node.input[:]
    node.input.extend(inputs)
    del node.attribute[:]


def remove_unused(graph: GraphProto) -> None:
    """Remove nodes that reach no output, weights that nobody reads, and recorded shapes."""
    needed = {output.name for output in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(reversed(kept))
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name not in needed:
            del graph.initializer[index]
