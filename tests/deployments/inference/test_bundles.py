"""The real bundles: their known scores, ids equal to the reference, vectors that make sense."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from tokenizers import Tokenizer

from deployments.inference.bundles import BUNDLES
from deployments.inference.conversion import QUANTISED_OPERATORS
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.dense_encoder import DenseEncoder
from deployments.inference.pulling import list_models, verify
from deployments.inference.resolving import resolve_model
from deployments.inference.sessions import Device, open_session

pytestmark = pytest.mark.slow

MINILM = "ms-marco-MiniLM-L-12-v2"
BGE = "bge-small-en-v1.5"
QUERY = "How many people live in Berlin?"
POPULATION = (
    "Berlin has a population of 3,520,031 registered inhabitants in an area of "
    "891.82 square kilometers."
)
MUSEUM = "New York City is famous for the Metropolitan Museum of Art."
PASSAGES = [POPULATION, MUSEUM]
COMPANY = [f"{MUSEUM} {'It opened again. ' * n}{POPULATION * (n % 3)}" for n in range(31)]
ODD_TEXTS = [
    "",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "ベルリンの人口は三百五十万人です。柏林有多少人口。",
    "\x00\x01\x1b[31m\x7f\u200b",
    "population " * 100_000,
]


@pytest.fixture(scope="session")
def reference(bundles: dict[str, Path]) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(bundles[MINILM] / "tokenizer.json"))
    tokenizer.enable_truncation(512, strategy="only_second")
    tokenizer.encode_special_tokens = True
    return tokenizer


def text_of(tokens: int) -> str:
    """A text that is a pair of so many tokens with the query."""
    return "population " * (tokens - 3 - 7)


def test_the_model_cards_pairs_have_their_known_logits(minilm: CrossEncoder) -> None:
    pairs = minilm.encode(QUERY, PASSAGES)
    assert [pair.length for pair in pairs] == [34, 22]
    np.testing.assert_allclose(minilm.logits(pairs), [9.267, -11.187], atol=0.01)
    relevant, other = (minilm.relevance(float(logit)) for logit in minilm.logits(pairs))
    assert relevant == pytest.approx(0.99990552, abs=1e-6)
    assert other == pytest.approx(0.0000138526, abs=1e-6)


def test_a_pair_scores_the_same_alone_and_among_31_others(minilm: CrossEncoder) -> None:
    pairs = minilm.encode(QUERY, [*COMPANY[:16], POPULATION, *COMPANY[16:]])
    together, alone = minilm.logits(pairs), minilm.logits([pairs[16]])
    assert together[16] == pytest.approx(alone[0], abs=1e-4)
    order = sorted(range(4), key=lambda index: together[13 + index])
    singles = [float(minilm.logits([pair])[0]) for pair in pairs[13:17]]
    assert order == sorted(range(4), key=lambda index: singles[index])


@pytest.mark.parametrize("tokens", [12, 34, 511, 512, 513, 2000])
def test_ids_and_segments_equal_the_reference_tokenizer(
    minilm: CrossEncoder, reference: Tokenizer, tokens: int
) -> None:
    (pair,) = minilm.encode(QUERY, [text_of(tokens)])
    expected = reference.encode(QUERY, text_of(tokens))
    assert pair.length == min(tokens, 512)
    assert pair.ids.tolist() == expected.ids
    assert pair.type_ids.tolist() == expected.type_ids
    assert pair.truncated == (tokens > 512)


def test_special_tokens_in_a_text_change_nothing_but_its_words(
    minilm: CrossEncoder, reference: Tokenizer
) -> None:
    text = f"{MUSEUM} [SEP] {QUERY} [SEP] [CLS] [PAD] [MASK]"
    (pair,) = minilm.encode(f"[CLS] {QUERY} [SEP]", [text])
    assert pair.ids.tolist() == reference.encode(f"[CLS] {QUERY} [SEP]", text).ids
    assert pair.ids.tolist().count(102) == 2
    assert pair.type_ids.tolist() == sorted(pair.type_ids.tolist())


def test_odd_texts_equal_the_reference_and_have_finite_scores(
    minilm: CrossEncoder, reference: Tokenizer
) -> None:
    pairs = minilm.encode(QUERY, ODD_TEXTS)
    for text, pair in zip(ODD_TEXTS, pairs, strict=True):
        assert pair.ids.tolist() == reference.encode(QUERY, text).ids
    assert [pair.truncated for pair in pairs] == [False, False, False, False, True]
    lone = minilm.encode("Berlin \ud800", [f"{POPULATION} \udfff"])
    assert np.isfinite(minilm.logits([*pairs, *lone])).all()


def test_two_very_long_texts_fill_the_window_half_each(minilm: CrossEncoder) -> None:
    (pair,) = minilm.encode("city " * 8000, ["river " * 8000])
    assert (pair.length, pair.truncated) == (512, True)
    assert pair.type_ids.tolist() == [0] * 258 + [1] * 254


def test_sixteen_threads_score_as_one_would(minilm: CrossEncoder) -> None:
    def score(n: int) -> list[float]:
        pairs = minilm.encode(f"{QUERY} {n}", [POPULATION * (n % 3), MUSEUM])
        return [float(value) for value in minilm.logits(pairs)]

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(score, range(32))) == [score(n) for n in range(32)]


def test_half_precision_differs_by_at_most_five_thousandths(
    minilm: CrossEncoder, bundles: dict[str, Path]
) -> None:
    half = CrossEncoder.load(bundles[MINILM], Device("cpu", threads=2), precision="fp16")
    pairs = minilm.encode(QUERY, [*PASSAGES, COMPANY[4], ""])
    np.testing.assert_allclose(half.logits(pairs), minilm.logits(pairs), atol=0.005)
    assert half.fingerprint != minilm.fingerprint


def test_the_models_are_warm_without_complaint(
    minilm: CrossEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        minilm.warm_up(512)
    assert caplog.text == ""


def test_a_query_is_nearer_to_its_passage_than_to_another(bge: DenseEncoder) -> None:
    (query,), passages = bge.encode_queries([QUERY]), bge.encode_documents(PASSAGES)
    near, far = (passages @ query).tolist()
    assert near == pytest.approx(0.840, abs=0.01)
    assert far == pytest.approx(0.477, abs=0.01)
    assert (bge.dimension, bge.settings.pooling) == (384, "cls")


def test_vectors_do_not_depend_on_the_texts_beside_them(bge: DenseEncoder) -> None:
    together = bge.encode_documents([*COMPANY[:8], POPULATION, *ODD_TEXTS[:4]])
    np.testing.assert_allclose(together[8], bge.encode_documents([POPULATION])[0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", BUNDLES)
def test_a_pulled_bundle_is_whole_plain_and_checked(bundles: dict[str, Path], name: str) -> None:
    assert verify(name) == []
    assert resolve_model(name) == bundles[name]
    model = onnx.load(bundles[name] / "model.onnx")
    onnx.checker.check_model(model)
    assert not QUANTISED_OPERATORS.intersection(node.op_type for node in model.graph.node)


@pytest.mark.parametrize(("name", "attentions"), [(MINILM, 11), (BGE, 12)])
def test_half_precision_is_fused_save_where_it_is_cut(
    bundles: dict[str, Path], name: str, attentions: int
) -> None:
    half = onnx.load(bundles[name] / "model.fp16.onnx")
    fused = [node.op_type for node in half.graph.node]
    assert (fused.count("Attention"), fused.count("SkipLayerNormalization")) == (attentions, 24)


def test_the_last_layer_is_cut_where_only_a_score_is_wanted(
    bundles: dict[str, Path], minilm: CrossEncoder, bge: DenseEncoder
) -> None:
    assert (minilm.graph.cut, bge.graph.cut) == (True, False)
    pairs = minilm.encode(QUERY, [*PASSAGES, COMPANY[4], "", *ODD_TEXTS])
    whole = open_session(bundles[MINILM] / "model.onnx", Device("cpu", threads=2))
    expected = whole.run(minilm.graph.tokenizer.pad(pairs), "logits")[:, 0]
    np.testing.assert_allclose(minilm.logits(pairs), expected, rtol=0, atol=1e-4)


def test_the_list_shows_what_is_loaded(
    bundles: dict[str, Path], minilm: CrossEncoder, bge: DenseEncoder
) -> None:
    rows = {row.name: row for row in list_models()}
    assert list(rows) == list(bundles)
    assert [row.kind for row in rows.values()] == ["cross_encoder", "dense", "sparse"]
    assert [row.licence for row in rows.values()] == ["Apache-2.0", "MIT", "Apache-2.0"]
    assert all(row.present and row.size > 15_000_000 for row in rows.values())
    assert rows[MINILM].fingerprint == minilm.fingerprint
    assert rows[BGE].fingerprint == bge.fingerprint
