"""Texts to vectors, on a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deployments.inference.dense_encoder import (
    DenseEncoder,
    pool_cls,
    pool_mean,
    split_by_length,
)
from deployments.inference.errors import ModelError
from deployments.inference.sessions import Device

TEXTS = ["old city", "river " * 30, "", "berlin", "the new museum in the old city", "people"]
STATES = np.array([[[1, 2], [3, 4], [50, 60]], [[5, 6], [7, 8], [9, 10]]], np.float32)


def load(folder: Path) -> DenseEncoder:
    return DenseEncoder.load(folder, Device("cpu"))


def test_cls_pooling_takes_the_first_token() -> None:
    assert pool_cls(STATES, np.array([2, 3])).tolist() == [[1, 2], [5, 6]]


def test_mean_pooling_leaves_padding_out() -> None:
    assert pool_mean(STATES, np.array([2, 3])).tolist() == [[2, 3], [7, 8]]


def test_mean_pooling_is_not_poisoned_by_padding_that_is_not_a_number() -> None:
    states = np.array([[[1, 2], [np.nan, np.inf]]], np.float32)
    assert pool_mean(states, np.array([1])).tolist() == [[1, 2]]


def test_groups_hold_texts_of_like_length_within_the_budget() -> None:
    assert list(split_by_length([3, 10, 4, 9, 50], 20)) == [[4], [1, 3], [2, 0]]
    assert list(split_by_length([], 20)) == []


def test_vectors_are_of_unit_length_and_in_input_order(make_model: Callable[..., Path]) -> None:
    model = load(make_model(hidden=True, settings={"pooling": "mean"}))
    vectors = model.encode_documents(TEXTS)
    assert (*vectors.shape, model.dimension) == (6, 8, 8)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(model.encode_documents([text])[0], vector, atol=1e-5)


def test_several_groups_keep_the_input_order(make_model: Callable[..., Path]) -> None:
    model = load(make_model(hidden=True, settings={}))
    texts = [f"river {'city ' * (n % 50)} {'ab'[n % 2] * (n % 7)}" for n in range(200)]
    vectors = model.encode_documents(texts)
    np.testing.assert_allclose(vectors[::-1], model.encode_documents(texts[::-1]), atol=1e-5)


def test_queries_take_the_prefix_and_documents_do_not(make_model: Callable[..., Path]) -> None:
    model = load(make_model(hidden=True, settings={"query_prefix": "the river "}))
    query, document = model.encode_queries(["city"]), model.encode_documents(["city"])
    assert query.tolist() == model.encode(["the river city"]).tolist()
    assert document.tolist() == model.encode(["city"]).tolist()
    other = load(make_model("other", hidden=True, settings={"document_prefix": "old "}))
    assert other.encode_queries(["city"]).tolist() == document.tolist()
    assert other.encode_documents(["city"]).tolist() == model.encode(["old city"]).tolist()


def test_vectors_may_be_left_as_they_are(make_model: Callable[..., Path]) -> None:
    unit = load(make_model(hidden=True, settings={})).encode(["city"])
    folder = make_model("plain", hidden=True, settings={"normalise": False})
    plain = load(folder).encode(["city"])
    assert np.linalg.norm(plain) != pytest.approx(1.0, abs=0.01)
    np.testing.assert_allclose(plain / np.linalg.norm(plain), unit, atol=1e-6)


def test_no_texts_give_no_vectors(make_model: Callable[..., Path]) -> None:
    model = load(make_model(hidden=True, settings={}))
    assert model.encode_queries([]).shape == (0, 8)


def test_a_graph_of_logits_is_refused_naming_the_shape(make_model: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match=r"output of shape \(1, 1\), not one vector a token"):
        load(make_model())


def test_another_dimension_than_declared_is_refused(make_model: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match="vectors of dimension 8, not 384"):
        load(make_model(hidden=True, settings={"dimension": 384}))


def test_the_fingerprint_follows_pooling_and_prefix(make_model: Callable[..., Path]) -> None:
    def print_of(folder: str, **settings: object) -> str:
        own = {"name": "tiny", **settings}
        return load(make_model(folder, hidden=True, settings=own)).fingerprint

    first = print_of("first")
    others = {
        print_of("pooled", pooling="cls"),
        print_of("prefixed", query_prefix="query: "),
        print_of("plain", normalise=False),
    }
    assert print_of("twin") == first
    assert len({first, *others}) == 4
