"""A dense encoder: texts to vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deployments.inference.errors import ModelError
from deployments.inference.graphs import ModelGraph, open_graph
from deployments.inference.sessions import Device
from deployments.inference.settings import ModelSettings, read_settings
from deployments.inference.tokens import EncodedPair

SMALLEST_NORM = 1e-12


@dataclass(frozen=True, slots=True)
class DenseEncoder:
    """A loaded dense encoder; its vectors have `dimension` numbers. Threads may share it."""

    graph: ModelGraph
    dimension: int

    @classmethod
    def load(cls, folder: Path, device: Device) -> DenseEncoder:
        """Load a model's folder on a device.

        ModelError if anything about it is unusable, also if the graph does not give one vector
        a token, or vectors of another dimension than declared.
        """
        settings = read_settings(folder, "dense")
        graph = open_graph(folder, settings, "last_hidden_state", device)
        return cls(graph, probe_dimension(graph))

    @property
    def settings(self) -> ModelSettings:
        return self.graph.settings

    @property
    def fingerprint(self) -> str:
        """name@12 hex digits over everything that a vector depends on."""
        return self.graph.fingerprint

    @property
    def provider(self) -> str:
        """The ONNX Runtime provider really in use."""
        return self.graph.session.provider

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count each text's tokens, special ones not included."""
        return self.graph.tokenizer.count(texts)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors (n, dimension) of queries, in order; the model's prefix is added."""
        return self.encode([self.settings.query_prefix + text for text in texts])

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors (n, dimension) of documents, in order."""
        return self.encode([self.settings.document_prefix + text for text in texts])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors (n, dimension) of texts as they are, in order."""
        encoded = self.graph.tokenizer.encode_texts(texts)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        budget = self.graph.session.backend.batch_tokens
        for indices in split_by_length([one.length for one in encoded], budget):
            vectors[indices] = self.embed([encoded[index] for index in indices])
        return vectors

    def embed(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Return vectors (n, dimension) of one forward pass."""
        states = self.graph.run(batch)  # (n, longest, dimension)
        lengths = np.array([one.length for one in batch])
        vectors = POOLINGS[self.settings.pooling](states, lengths)
        if not self.settings.normalise:
            return vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)  # (n, 1)
        unit: NDArray[np.float32] = vectors / np.maximum(norms, np.float32(SMALLEST_NORM))
        return unit


def pool_cls(states: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Take each text's first token: (n, longest, dimension) to (n, dimension)."""
    return states[:, 0]


def pool_mean(states: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Average each text's own tokens: (n, longest, dimension) to (n, dimension)."""
    own = np.arange(states.shape[1]) < lengths[:, None]  # (n, longest)
    total = np.where(own[:, :, None], states, np.float32(0)).sum(axis=1)
    mean: NDArray[np.float32] = total / lengths[:, None].astype(np.float32)
    return mean


POOLINGS = {"cls": pool_cls, "mean": pool_mean}


def split_by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield indices, longest first, in groups of at most `budget` padded tokens.

    A text longer than the budget has a group of its own.
    """
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if group and lengths[group[0]] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def probe_dimension(graph: ModelGraph) -> int:
    """Return the dimension of the vectors that the graph gives for a real text."""
    shape = graph.run(graph.tokenizer.encode_texts(["warm up"])).shape
    name, declared = graph.settings.name, graph.settings.dimension
    if len(shape) != 3:
        raise ModelError(f"{name} gives an output of shape {shape}, not one vector a token")
    if declared is not None and shape[2] != declared:
        raise ModelError(f"{name} gives vectors of dimension {shape[2]}, not {declared}")
    return int(shape[2])
