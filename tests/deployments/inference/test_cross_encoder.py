"""Pairs to logits, and logits to relevance, on a tiny model."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.errors import ModelError
from deployments.inference.sessions import Device

QUERY = "people in the old city"
TEXTS = ["berlin", "the new museum", "", "river " * 20, "of old", "unseen words"]


class CountingRuns:
    """An ONNX Runtime session that notes the shapes it is run with."""

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime
        self.shapes: list[tuple[int, ...]] = []

    def run(self, outputs: list[str], feeds: Mapping[str, NDArray[np.int64]]) -> Any:
        self.shapes.append(feeds["input_ids"].shape)
        return self.runtime.run(outputs, feeds)


def overflow_where_padded(model: onnx.ModelProto) -> None:
    """Add to each logit what becomes infinite once a row has 18 tokens of padding."""
    make, graph = helper.make_node, model.graph
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(-2e37, np.float32), "lowest"))
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(1, np.float32), "one"))
    graph.node[-1].output[0] = "own"
    graph.node.extend(
        [
            make("Sub", ["one", "mask"], ["padding"]),
            make("Mul", ["padding", "lowest"], ["bias"]),
            make("ReduceSum", ["bias", "axis1"], ["overflow"], keepdims=1),
            make("Sub", ["overflow", "overflow"], ["nothing"]),
            make("Add", ["own", "nothing"], ["logits"]),
        ]
    )


def load(folder: Path, **options: object) -> CrossEncoder:
    return CrossEncoder.load(folder, Device("cpu"), **options)  # type: ignore[arg-type]


def test_one_logit_a_pair_in_order(make_model: Callable[..., Path]) -> None:
    model = load(make_model(settings={}))
    logits = model.logits(model.encode(QUERY, TEXTS))
    assert logits.shape == (6,)
    assert logits.dtype == np.float32
    backwards = model.logits(model.encode(QUERY, TEXTS[::-1]))
    np.testing.assert_allclose(logits, backwards[::-1], atol=1e-5)
    assert len(set(logits.tolist())) == 6


def test_a_pair_scores_the_same_alone_and_in_a_batch(make_model: Callable[..., Path]) -> None:
    model = load(make_model(settings={}))
    pairs = model.encode(QUERY, TEXTS)
    alone = np.concatenate([model.logits([pair]) for pair in pairs])
    np.testing.assert_allclose(model.logits(pairs), alone, atol=1e-5)


def test_no_pairs_give_no_logits(make_model: Callable[..., Path]) -> None:
    assert load(make_model(settings={})).logits([]).tolist() == []


def test_segments_matter_where_the_graph_declares_them(make_model: Callable[..., Path]) -> None:
    model = load(make_model(settings={}))
    (there,), (back,) = model.encode("old", ["city"]), model.encode("city", ["old"])
    assert model.logits([there])[0] != pytest.approx(model.logits([back])[0], abs=1e-3)


def test_a_graph_without_segments_works(make_model: Callable[..., Path]) -> None:
    model = load(make_model("roberta", types=False))
    assert list(model.graph.session.inputs) == ["input_ids", "attention_mask"]
    assert model.logits(model.encode(QUERY, TEXTS)).shape == (6,)


def test_two_logits_a_pair_are_refused_naming_the_shape(make_model: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match=r"output of shape \(1, 2\) for a batch of 1"):
        load(make_model(outputs=2, settings={}))


def test_a_graph_of_token_states_is_refused_naming_the_shape(
    make_model: Callable[..., Path],
) -> None:
    folder = make_model(hidden=True)
    with pytest.raises(ModelError, match=r"output of shape \(1, \d+, 8\) for a batch of 1"):
        load(folder)


def test_an_input_that_cannot_be_fed_is_named(make_model: Callable[..., Path]) -> None:
    folder = make_model()
    model = onnx.load(folder / "model.onnx")
    model.graph.input.append(
        helper.make_tensor_value_info("position_ids", onnx.TensorProto.INT64, ["batch", "tokens"])
    )
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(ModelError, match="declares the input position_ids"):
        load(folder)


def test_inputs_of_32_bits_are_fed_as_declared(make_model: Callable[..., Path]) -> None:
    folder = make_model(settings={})
    expected = load(folder).logits(load(folder).encode(QUERY, TEXTS))
    model = onnx.load(folder / "model.onnx")
    for entry in model.graph.input:
        entry.type.tensor_type.elem_type = onnx.TensorProto.INT32
    onnx.save(model, folder / "model.onnx")
    narrow = load(folder)
    assert narrow.logits(narrow.encode(QUERY, TEXTS)).tolist() == expected.tolist()


def test_what_a_folder_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.onnx and tokenizer\.json"):
        load(tmp_path)


def test_half_precision_that_was_never_made_is_refused(make_model: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match="has no fp16 weights"):
        load(make_model(settings={}), precision="fp16")
    with pytest.raises(ModelError, match="precision must be auto, fp32 or fp16, not 'int8'"):
        load(make_model("other"), precision="int8")


def test_sigmoid_relevance_is_computed_in_float64(make_model: Callable[..., Path]) -> None:
    model = load(make_model(settings={}))
    assert model.relevance(0.0) == 0.5
    assert model.relevance(0.6) == 1 / (1 + math.exp(-0.6))
    assert model.relevance(-3.0) == pytest.approx(0.04742587317756678, abs=1e-17)
    assert model.relevance(1000.0) == 1.0
    assert model.relevance(-1000.0) == 0.0


def test_identity_relevance_outside_the_unit_interval_is_not_a_score(
    make_model: Callable[..., Path],
) -> None:
    model = load(make_model(settings={"activation": "identity"}))
    assert [model.relevance(value) for value in (0.0, 0.25, 1.0)] == [0.0, 0.25, 1.0]
    assert [model.relevance(value) for value in (-0.01, 1.01, 7.4)] == [None, None, None]


@pytest.mark.parametrize("activation", ["sigmoid", "identity"])
def test_what_is_not_finite_is_not_a_score(
    make_model: Callable[..., Path], activation: str
) -> None:
    model = load(make_model(settings={"activation": activation}))
    assert [model.relevance(value) for value in (math.nan, math.inf, -math.inf)] == [None] * 3


def test_warming_up_scores_and_is_quiet(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    model = load(make_model(settings={}))
    caplog.clear()  # loading says what it found
    with caplog.at_level(logging.WARNING):
        model.warm_up(512)
    assert caplog.text == ""


def test_warming_up_refuses_a_model_that_gives_nan(make_model: Callable[..., Path]) -> None:
    folder = make_model(settings={})
    model = onnx.load(folder / "model.onnx")
    (classifier,) = (w for w in model.graph.initializer if w.name == "classifier")
    classifier.CopyFrom(
        onnx.numpy_helper.from_array(np.full((8, 1), np.nan, np.float32), "classifier")
    )
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(ModelError, match="not finite"):
        load(folder).warm_up(512)


def test_warming_up_runs_every_shape_that_batches_will_have(
    make_model: Callable[..., Path],
) -> None:
    model = load(make_model(settings={}))
    counting = CountingRuns(model.graph.session.runtime)
    session = dataclasses.replace(model.graph.session, runtime=counting)
    CrossEncoder(dataclasses.replace(model.graph, session=session)).warm_up(128)
    assert counting.shapes[:3] == [(2, 64), (4, 32), (8, 16)]


def test_warming_up_refuses_nan_that_only_long_padded_batches_have(
    make_model: Callable[..., Path],
) -> None:
    folder = make_model(settings={})
    model = onnx.load(folder / "model.onnx")
    overflow_where_padded(model)
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(ModelError, match=r"not finite for \(2, 64\)"):
        load(folder).warm_up(128)


def test_warming_up_warns_of_scores_that_depend_on_their_batch(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_model(settings={})
    model = onnx.load(folder / "model.onnx")
    model.graph.node[-1].output[0] = "own"
    model.graph.node.append(helper.make_node("ReduceSum", ["own"], ["everyones"]))
    model.graph.node.append(helper.make_node("Add", ["own", "everyones"], ["logits"]))
    onnx.save(model, folder / "model.onnx")
    load(folder).warm_up(512)
    assert "tiny scores a pair differently in a batch" in caplog.text


def test_warming_up_warns_of_a_dynamically_quantised_graph(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_model()
    quantize_dynamic(folder / "model.onnx", folder / "model.onnx", weight_type=QuantType.QInt8)
    load(folder).warm_up(512)
    assert "is it dynamically quantised?" in caplog.text


def test_the_fingerprint_names_the_model_and_follows_its_settings(
    make_model: Callable[..., Path],
) -> None:
    folder = make_model(settings={})
    first = load(folder).fingerprint
    assert first.startswith("tiny@")
    assert load(folder).fingerprint == first
    assert load(folder, max_tokens=32).fingerprint != first
    assert load(folder, activation="identity").fingerprint != first


def test_the_fingerprint_follows_weights_and_tokenizer(make_model: Callable[..., Path]) -> None:
    folder = make_model(settings={})
    first = load(folder).fingerprint
    content = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**content, "version": "1.0"}, indent=1))
    second = load(folder).fingerprint
    model = onnx.load(folder / "model.onnx")
    model.doc_string = "edited"
    onnx.save(model, folder / "model.onnx")
    assert len({first, second, load(folder).fingerprint}) == 3


def test_eight_threads_score_as_one_would(make_model: Callable[..., Path]) -> None:
    model = load(make_model(settings={}))
    batches = [model.encode(f"city {n}", TEXTS[: 1 + n % 6]) for n in range(64)]
    expected = [model.logits(batch).tolist() for batch in batches]
    with ThreadPoolExecutor(8) as threads:
        assert [r.tolist() for r in threads.map(model.logits, batches)] == expected
