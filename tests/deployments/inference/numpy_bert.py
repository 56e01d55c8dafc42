"""BERT with a masked-language head in plain numpy, one text at a time: a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def masked_language_logits(
    weights: Mapping[str, NDArray[np.float32]], heads: int, layers: int, ids: Sequence[int]
) -> Floats:
    """Return (tokens, vocabulary) for one text's ids, in float64."""
    wide = {name: values.astype(np.float64) for name, values in weights.items()}
    table = wide["bert.embeddings.word_embeddings.weight"]
    hidden = table[list(ids)] + wide["bert.embeddings.position_embeddings.weight"][: len(ids)]
    hidden = hidden + wide["bert.embeddings.token_type_embeddings.weight"][0]
    hidden = normalise(wide, "bert.embeddings.LayerNorm", hidden)
    for layer in range(layers):
        hidden = transform(wide, f"bert.encoder.layer.{layer}", heads, hidden)
    hidden = gelu(dense(wide, "cls.predictions.transform.dense", hidden))
    hidden = normalise(wide, "cls.predictions.transform.LayerNorm", hidden)
    return hidden @ table.T + wide["cls.predictions.bias"]


def transform(weights: Mapping[str, Floats], layer: str, heads: int, hidden: Floats) -> Floats:
    query, key, value = (
        np.stack(np.split(dense(weights, f"{layer}.attention.self.{name}", hidden), heads, axis=1))
        for name in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[2])
    odds = np.exp(scores - scores.max(axis=2, keepdims=True))
    attended = np.concatenate(list(odds / odds.sum(axis=2, keepdims=True) @ value), axis=1)
    attended = dense(weights, f"{layer}.attention.output.dense", attended) + hidden
    attended = normalise(weights, f"{layer}.attention.output.LayerNorm", attended)
    widened = gelu(dense(weights, f"{layer}.intermediate.dense", attended))
    narrowed = dense(weights, f"{layer}.output.dense", widened) + attended
    return normalise(weights, f"{layer}.output.LayerNorm", narrowed)


def dense(weights: Mapping[str, Floats], name: str, hidden: Floats) -> Floats:
    product: Floats = hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return product


def normalise(weights: Mapping[str, Floats], name: str, hidden: Floats) -> Floats:
    centred = hidden - hidden.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-12)
    product: Floats = scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return product


def gelu(hidden: Floats) -> Floats:
    grown: Floats = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    return grown
