"""A learned-sparse encoder: texts to weights of terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deployments.inference.dense_encoder import split_by_length
from deployments.inference.errors import ModelError
from deployments.inference.graphs import ModelGraph, open_graph
from deployments.inference.sessions import Device
from deployments.inference.settings import ModelSettings, read_settings
from deployments.inference.tokens import EncodedPair
from pipeline.vectors import SparseVector

# A pass makes a number for each token and each word of the vocabulary: 60 MB for these.
BATCH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class SparseEncoder:
    """A loaded SPLADE encoder. Threads may share it.

    Its graph gives a weight for each word of the vocabulary, or the logits of each token, as
    exports of masked-language models do: those are pooled here.
    """

    graph: ModelGraph

    @classmethod
    def load(cls, folder: Path, device: Device) -> SparseEncoder:
        """Load a model's folder on a device; ModelError if anything about it is unusable."""
        settings = read_settings(folder, "sparse")
        graph = open_graph(folder, settings, "weights", device, "fp32")
        shape = graph.run(graph.tokenizer.encode_texts(["warm up"])).shape
        if len(shape) not in (2, 3):
            raise ModelError(f"{settings.name} gives an output of shape {shape}, not terms")
        return cls(graph)

    @property
    def settings(self) -> ModelSettings:
        return self.graph.settings

    @property
    def fingerprint(self) -> str:
        """name@12 hex digits over everything that a vector depends on."""
        return self.graph.fingerprint

    def encode_queries(self, texts: Sequence[str]) -> list[SparseVector]:
        """Return the vectors of queries, in order; the model's prefix is added."""
        return self.encode([self.settings.query_prefix + text for text in texts])

    def encode_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        """Return the vectors of documents, in order."""
        return self.encode([self.settings.document_prefix + text for text in texts])

    def encode(self, texts: Sequence[str]) -> list[SparseVector]:
        """Return the vectors of texts as they are, in order."""
        encoded = self.graph.tokenizer.encode_texts(texts)
        vectors: dict[int, SparseVector] = {}
        for indices in split_by_length([one.length for one in encoded], BATCH_TOKENS):
            weights = self.weigh([encoded[index] for index in indices])
            vectors.update(zip(indices, map(nonzero, weights), strict=True))
        return [vectors[index] for index in range(len(texts))]

    def weigh(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Return weights (n, vocabulary) of one forward pass."""
        output = self.graph.run(batch)
        if output.ndim == 2:
            return output
        return pool_splade(output, np.array([one.length for one in batch]))


def pool_splade(logits: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Pool each text's own tokens: (n, longest, vocabulary) to (n, vocabulary).

    max over tokens of log(1 + relu(logits)). Formal, Lassance, Piwowarski and Clinchant,
    "SPLADE v2" (2021).
    """
    own = np.arange(logits.shape[1]) < lengths[:, None]  # (n, longest)
    greatest = np.max(logits, axis=1, where=own[:, :, None], initial=0.0)
    weights: NDArray[np.float32] = np.log1p(greatest)
    return weights


def nonzero(weights: NDArray[np.float32]) -> SparseVector:
    """Keep the terms (vocabulary,) that weigh anything."""
    (ids,) = np.nonzero(weights > 0)
    return SparseVector(ids.astype(np.int64), weights[ids])
