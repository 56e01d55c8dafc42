"""A last layer without keys and values: the same scores, and no weight that meets every token."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from deployments.inference.absorbing import absorb_projections
from tests.deployments.inference.families import (
    FAMILIES,
    ONE_LAYER,
    absorbed,
    feeds,
    load,
    make,
    rows_by_weight,
    run,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_weight_of_the_last_layer_meets_every_token(family: str) -> None:
    assert rows_by_weight(absorbed(make(family))) == [9] * 6 + [1] * 6


def test_a_single_layer_has_no_keys_and_values_either() -> None:
    whole, less = make("bert", shape=ONE_LAYER), absorbed(make("bert", shape=ONE_LAYER))
    assert rows_by_weight(less) == [1] * 6
    batch = feeds([9, 3])
    np.testing.assert_allclose(run(load(less), batch)[0], run(load(whole), batch)[0], atol=1e-5)


def test_weights_that_nobody_reads_any_more_are_gone() -> None:
    model = absorbed(make("bert"))
    read = {name for node in model.graph.node for name in node.input}
    assert {weight.name for weight in model.graph.initializer} <= read


def test_keys_that_are_turned_twice_are_recognised() -> None:
    model = make("roberta")
    for index, node in reversed(list(enumerate(model.graph.node))):
        if node.op_type == "Transpose" and list(node.attribute[0].ints) == [0, 2, 3, 1]:
            turned = turn_twice(node.input[0], node.output[0])
            del model.graph.node[index]
            for later in reversed(turned):
                model.graph.node.insert(index, later)
    shapes = {"flat": [-1, 9, 8], "split": [-1, 2, 8, 9]}
    for name, sizes in shapes.items():
        model.graph.initializer.append(helper.make_tensor(name, 7, [len(sizes)], sizes))
    expected = run(load(model), feeds([9, 4], 1))[0]
    np.testing.assert_allclose(run(load(absorbed(model)), feeds([9, 4], 1))[0], expected, atol=1e-5)


def turn_twice(heads: str, keys: str) -> list[onnx.NodeProto]:
    """From (batch, 9, 2, 8) to (batch, 2, 8, 9) by way of (batch * 2, 9, 8)."""
    make_node = helper.make_node
    return [
        make_node("Transpose", [heads], [f"{keys}.a"], perm=[0, 2, 1, 3]),
        make_node("Reshape", [f"{keys}.a", "flat"], [f"{keys}.b"]),
        make_node("Transpose", [f"{keys}.b"], [f"{keys}.c"], perm=[0, 2, 1]),
        make_node("Reshape", [f"{keys}.c", "split"], [keys]),
    ]


def test_keys_of_another_make_are_left_alone() -> None:
    model = make("bert")
    for node in model.graph.node:
        if node.op_type == "Transpose" and list(node.attribute[0].ints) == [0, 2, 3, 1]:
            node.attribute[0].ints[:] = [0, 2, 1, 3]
    before = model.SerializeToString()
    assert not absorb_projections(model)
    assert model.SerializeToString() == before
