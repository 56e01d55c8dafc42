"""Dynamic int8 graphs turned into plain fp32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from deployments.inference.conversion import QUANTISED_OPERATORS, convert_to_fp32, dequantise
from deployments.inference.errors import ModelError
from deployments.inference.sessions import Device, open_session

IDS = np.array([[2, 5, 6, 3, 7, 3], [2, 9, 3, 8, 3, 0]], np.int64)
FEEDS = {
    "input_ids": IDS,
    "attention_mask": (IDS != 0).astype(np.int64),
    "token_type_ids": np.array([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]], np.int64),
}


@pytest.fixture
def quantised(make_model: Callable[..., Path], tmp_path: Path) -> Path:
    path = tmp_path / "int8.onnx"
    quantize_dynamic(make_model() / "model.onnx", path, weight_type=QuantType.QInt8)
    return path


def logits(path: Path, rows: slice = slice(None)) -> NDArray[np.float32]:
    feeds = {name: values[rows] for name, values in FEEDS.items()}
    return open_session(path, Device("cpu")).run(feeds, "logits")


def weights_of(model: bytes) -> dict[str, NDArray[np.float32]]:
    graph = onnx.load_model_from_string(model).graph
    return {weight.name: numpy_helper.to_array(weight) for weight in graph.initializer}


def test_dequantised_weights_are_offset_then_scaled() -> None:
    weight = np.array([[-1, 0], [1, 3]], np.int8)
    values = dequantise(weight, np.array(1, np.int8), np.array(0.5, np.float32))
    assert values.tolist() == [[-1.0, -0.5], [0.0, 1.0]]
    assert values.dtype == np.float32


def test_each_column_may_have_its_own_scale_and_zero_point() -> None:
    weight = np.array([[2, 4]], np.uint8)
    values = dequantise(weight, np.array([1, 2], np.uint8), np.array([0.5, 2.0], np.float32))
    assert values.tolist() == [[0.5, 4.0]]


def test_a_converted_graph_has_no_quantised_operator_and_keeps_its_interface(
    quantised: Path,
) -> None:
    before = onnx.load(quantised)
    assert {node.op_type for node in before.graph.node} >= {
        "MatMulInteger",
        "DynamicQuantizeLinear",
        "DequantizeLinear",
    }
    after = onnx.load_model_from_string(convert_to_fp32(quantised.read_bytes()))
    assert not QUANTISED_OPERATORS.intersection(node.op_type for node in after.graph.node)
    assert all(weight.data_type != TensorProto.INT8 for weight in after.graph.initializer)
    assert [entry.name for entry in after.graph.input] == list(FEEDS)
    assert [entry.name for entry in after.graph.output] == ["logits"]


def test_a_converted_graph_keeps_nothing_that_nobody_reads(quantised: Path) -> None:
    graph = onnx.load_model_from_string(convert_to_fp32(quantised.read_bytes())).graph
    read = {name for node in graph.node for name in node.input}
    assert {weight.name for weight in graph.initializer} <= read


def test_weights_come_back_within_a_step(quantised: Path, tmp_path: Path) -> None:
    plain = weights_of((tmp_path / "tiny" / "model.onnx").read_bytes())
    restored = weights_of(convert_to_fp32(quantised.read_bytes()))
    for name in ("words", "segments", "dense", "classifier"):
        step = (max(plain[name].max(), 0) - min(plain[name].min(), 0)) / 255
        difference = np.abs(restored[f"{name}_quantized_fp32"] - plain[name]).max()
        assert difference <= 1.01 * step, name


def test_conversion_makes_a_score_independent_of_its_batch(quantised: Path, tmp_path: Path) -> None:
    path = tmp_path / "fp32.onnx"
    path.write_bytes(convert_to_fp32(quantised.read_bytes()))
    alone = np.concatenate([logits(path, slice(0, 1)), logits(path, slice(1, 2))])
    np.testing.assert_allclose(logits(path), alone, atol=1e-6)


def test_the_same_graph_converts_to_the_same_bytes(quantised: Path) -> None:
    assert convert_to_fp32(quantised.read_bytes()) == convert_to_fp32(quantised.read_bytes())


def test_a_plain_graph_stays_as_it_is(make_model: Callable[..., Path], tmp_path: Path) -> None:
    plain = make_model() / "model.onnx"
    path = tmp_path / "converted.onnx"
    path.write_bytes(convert_to_fp32(plain.read_bytes()))
    assert logits(path).tolist() == logits(plain).tolist()


def test_a_quantised_operator_that_cannot_be_undone_is_named() -> None:
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["x", "scale"], ["y"])],
        "odd",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [helper.make_tensor("scale", TensorProto.FLOAT, [], [0.5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    with pytest.raises(ModelError, match="DequantizeLinear"):
        convert_to_fp32(model.SerializeToString())
