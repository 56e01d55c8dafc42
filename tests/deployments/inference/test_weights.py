"""Which graph of a folder is run, and that it is cut only where that changes no score."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from tokenizers import Tokenizer

from benchmarks.architectures import bert_graph
from benchmarks.encoders import random_weights
from deployments.inference.bert_graphs import Shape
from deployments.inference.bundles import NOTICE_FILE, Bundle, Wheel, find_problems
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.dense_encoder import DenseEncoder
from deployments.inference.errors import ModelError
from deployments.inference.sessions import Device, open_session
from deployments.inference.settings import ModelSettings
from deployments.inference.storage import STORED_FILES, add_fp16, has_fp16, write_manifest
from deployments.inference.tokens import PairTokenizer
from deployments.inference.weights import cut_file, open_agreeing, probe_feeds, score_probes

CPU = Device("cpu")
TEXTS = ["berlin", "the old museum of the city", "", "people in the new city of berlin"]


def build_bert(vocabulary: int) -> ModelProto:
    shape = Shape("bert", 2, 16, 2, 32, vocabulary=vocabulary, positions=64)
    return bert_graph(shape, random_weights(shape, seed=3))


@pytest.fixture
def bert(make_model: Callable[..., Path]) -> Path:
    """A model's folder whose last layer can be cut."""
    folder = make_model("bert", settings={"activation": "sigmoid"})
    words = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    onnx.save(build_bert(words), folder / "model.onnx")
    return folder


def test_a_cut_model_scores_as_the_file_does(bert: Path) -> None:
    encoder = CrossEncoder.load(bert, CPU)
    assert encoder.graph.cut
    pairs = encoder.encode("old people", TEXTS)
    whole = open_session(bert / "model.onnx", CPU)
    expected = whole.run(encoder.graph.tokenizer.pad(pairs), "logits")[:, 0]
    np.testing.assert_allclose(encoder.logits(pairs), expected, rtol=0, atol=1e-5)


def test_a_model_that_cannot_be_cut_runs_whole_and_the_log_says_so(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert not CrossEncoder.load(make_model(), CPU).graph.cut
    assert "runs whole: its last layer cannot be cut" in caplog.text


def test_a_graph_with_an_output_for_each_token_is_still_refused_by_its_shape(
    make_model: Callable[..., Path],
) -> None:
    folder = make_model(hidden=True)
    with pytest.raises(ModelError, match="one logit a pair is needed"):
        CrossEncoder.load(folder, CPU)


def test_weights_in_a_file_of_their_own_run_whole(
    bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    model = onnx.load(bert / "model.onnx")
    onnx.save(
        model,
        bert / "model.onnx",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=100,
    )
    encoder = CrossEncoder.load(bert, CPU)
    assert not encoder.graph.cut
    assert np.isfinite(encoder.logits(encoder.encode("old people", TEXTS))).all()
    assert "runs whole" in caplog.text


def test_dense_encoders_are_not_cut(
    make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert not DenseEncoder.load(make_model(hidden=True), CPU).graph.cut
    assert "whole" not in caplog.text


def test_a_cut_graph_that_changes_a_score_is_not_used(
    bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    probes = probe_feeds(PairTokenizer(bert / "tokenizer.json", 64))
    expected = score_probes(open_session(bert / "model.onnx", CPU), probes)
    model = cut_file(bert / "model.onnx")
    assert model is not None
    assert open_agreeing(model, CPU, "bert, cut", probes, expected) is not None
    for changed in (np.float32(2e-4), np.float32("nan")):
        other = [expected[0], expected[1] + changed]
        assert open_agreeing(model, CPU, "bert, cut", probes, other) is None
        assert "bert, cut, is not used, since scores change by" in caplog.text
        caplog.clear()


def test_a_cut_graph_that_fails_is_not_used(bert: Path, caplog: pytest.LogCaptureFixture) -> None:
    probes = probe_feeds(PairTokenizer(bert / "tokenizer.json", 64))
    expected = score_probes(open_session(bert / "model.onnx", CPU), probes)
    assert open_agreeing(b"no graph", CPU, "bert, cut", probes, expected) is None
    assert "bert, cut, is not used, since it fails" in caplog.text


def test_an_input_that_nobody_feeds_is_refused_before_the_cut_is_tried(bert: Path) -> None:
    model = onnx.load(bert / "model.onnx")
    odd = helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "tokens"])
    model.graph.input.append(odd)
    onnx.save(model, bert / "model.onnx")
    with pytest.raises(ModelError, match="declares the input position_ids"):
        CrossEncoder.load(bert, CPU)


def test_fp16_weights_are_made_of_the_cut_graph(bert: Path, tmp_path: Path) -> None:
    bundle = bundle_of(bert)
    write_manifest(bundle, bert, STORED_FILES)
    add_fp16(bundle, bert, tmp_path)
    full, half = (CrossEncoder.load(bert, CPU, precision=name) for name in ("fp32", "fp16"))
    assert (full.graph.cut, half.graph.cut) == (True, True)
    pairs = full.encode("old people", TEXTS)
    np.testing.assert_allclose(half.logits(pairs), full.logits(pairs), rtol=0, atol=5e-3)


def test_fp16_weights_of_another_version_of_graphs_do_not_count(bert: Path, tmp_path: Path) -> None:
    bundle = bundle_of(bert)
    write_manifest(bundle, bert, STORED_FILES)
    assert not has_fp16(bundle, bert)
    add_fp16(bundle, bert, tmp_path)
    assert has_fp16(bundle, bert)
    manifest = json.loads((bert / "onepass.json").read_text(encoding="utf-8"))
    (bert / "onepass.json").write_text(json.dumps({**manifest, "graph": "1"}), encoding="utf-8")
    assert not has_fp16(bundle, bert)
    assert find_problems(bundle, bert) == []


def bundle_of(folder: Path) -> Bundle:
    (folder / NOTICE_FILE).write_text("Notice\n", encoding="utf-8")
    return Bundle(
        name="bert",
        model="example/bert",
        licence="MIT",
        wheel=Wheel("tinymodels", "1.0", "0" * 64),
        folder="tinymodels/data",
        files={},
        settings=ModelSettings(name="bert", kind="cross_encoder", max_tokens=64),
    )
