"""The last layer cut to the first token: the same scores from less work."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from deployments.inference.cutting import CUT, cut_to_first_token
from tests.deployments.inference.families import (
    FAMILIES,
    ONE_LAYER,
    PADDING,
    absorbed,
    cut,
    feeds,
    load,
    make,
    rows_by_weight,
    run,
)


@cache
def whole_and_less(
    family: str, opset: int, rewrite: Callable[[ModelProto], ModelProto]
) -> tuple[Any, Any]:
    return load(make(family, opset)), load(rewrite(make(family, opset)))


@pytest.mark.parametrize("rewrite", [cut, absorbed])
@pytest.mark.parametrize("opset", [14, 17])
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_scores_stay_whatever_the_lengths(
    family: str, opset: int, rewrite: Callable[[ModelProto], ModelProto], lengths: list[int]
) -> None:
    batch = feeds(lengths, PADDING[family])
    sessions = whole_and_less(family, opset, rewrite)
    whole, less = (run(session, batch)[0] for session in sessions)
    assert whole.shape == less.shape == (len(lengths), 1)
    np.testing.assert_allclose(less, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_tell_texts_apart(family: str) -> None:
    scores = run(whole_and_less(family, 14, cut)[1], feeds([5, 9, 30, 60], PADDING[family]))[0]
    assert np.diff(np.sort(scores[:, 0])).min() > 0.01


@pytest.mark.parametrize("opset", [14, 17])
@pytest.mark.parametrize("family", FAMILIES)
def test_only_keys_and_values_of_the_last_layer_see_every_token(family: str, opset: int) -> None:
    model = make(family, opset)
    assert rows_by_weight(model) == [9] * 12
    assert rows_by_weight(cut(model)) == [9, 9, 9, 9, 9, 9, 1, 9, 9, 1, 1, 1]


def test_a_single_layer_is_cut_as_well() -> None:
    whole, less = make("bert", shape=ONE_LAYER), cut(make("bert", shape=ONE_LAYER))
    assert rows_by_weight(less) == [1, 9, 9, 1, 1, 1]
    batch = feeds([9, 3])
    np.testing.assert_allclose(run(load(less), batch)[0], run(load(whole), batch)[0], atol=1e-5)


def test_a_cut_graph_says_so_and_keeps_its_interface() -> None:
    model = cut(make("bert"))
    session = load(model)
    assert CUT in session.get_modelmeta().custom_metadata_map
    assert [entry.name for entry in session.get_inputs()] == list(feeds([2]))
    assert [entry.name for entry in session.get_outputs()] == ["logits"]
    read = {name for node in model.graph.node for name in node.input}
    assert {weight.name for weight in model.graph.initializer} <= read


def test_hidden_states_that_are_an_output_stay_whole() -> None:
    model = make("bert")
    hidden = next(node.input[0] for node in model.graph.node if node.output[0] == head(model))
    model.graph.output.append(helper.make_tensor_value_info(hidden, TensorProto.FLOAT, None))
    assert not cut_to_first_token(model)
    logits, states = run(load(model), feeds([9, 4]))
    assert (logits.shape, states.shape) == ((2, 1), (2, 9, 16))


def head(model: ModelProto) -> str:
    gathers = [node for node in model.graph.node if node.op_type == "Gather"]
    return str(gathers[-1].output[0])


def test_a_first_token_that_is_sliced_is_a_first_token_too() -> None:
    model = make("bert")
    bounds = [helper.make_tensor(f"bound{i}", TensorProto.INT64, [1], [i]) for i in (0, 1)]
    model.graph.initializer.extend(bounds)
    index = next(i for i, n in enumerate(model.graph.node) if n.output[0] == head(model))
    gather = model.graph.node[index]
    sliced = helper.make_node("Slice", [gather.input[0], "bound0", "bound1", "bound1"], ["sliced"])
    squeezed = helper.make_node("Squeeze", ["sliced", "bound1"], [gather.output[0]])
    gather.CopyFrom(squeezed)
    model.graph.node.insert(index, sliced)
    expected = run(load(model), feeds([9, 4]))[0]
    np.testing.assert_allclose(run(load(cut(model)), feeds([9, 4]))[0], expected, atol=1e-5)
    assert rows_by_weight(model)[-6:] == [1, 9, 9, 1, 1, 1]


def test_an_operator_that_is_not_known_is_computed_whole() -> None:
    model = make("bert")
    index, gelu = [(i, n) for i, n in enumerate(model.graph.node) if n.op_type == "Erf"][-1]
    unknown = helper.make_node("Softplus", list(gelu.input), list(gelu.output))
    model.graph.node[index].CopyFrom(unknown)
    before = model.SerializeToString()
    assert not cut_to_first_token(model)
    assert model.SerializeToString() == before


def test_a_graph_that_pools_all_tokens_is_left_alone(make_model: Callable[..., Path]) -> None:
    model = onnx.load(make_model() / "model.onnx")
    before = model.SerializeToString()
    assert not cut_to_first_token(model)
    assert model.SerializeToString() == before


def test_dynamically_quantised_graphs_are_left_alone(tmp_path: Path) -> None:
    onnx.save(make("bert"), tmp_path / "plain.onnx")
    quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "int8.onnx", weight_type=QuantType.QInt8)
    model = onnx.load(tmp_path / "int8.onnx")
    before = model.SerializeToString()
    assert not cut_to_first_token(model)
    assert model.SerializeToString() == before


def test_graphs_with_branches_are_left_alone() -> None:
    model = make("bert")
    branch = helper.make_graph(
        [helper.make_node("Identity", ["logits"], ["chosen"])],
        "branch",
        [],
        [helper.make_tensor_value_info("chosen", TensorProto.FLOAT, None)],
    )
    model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    model.graph.node.append(
        helper.make_node("If", ["yes"], ["either"], then_branch=branch, else_branch=branch)
    )
    assert not cut_to_first_token(model)
