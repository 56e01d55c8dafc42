"""Made-up chunks for retrieval benchmarks of any size: the same ones on every run.

Random directions have no neighbours, and random words no rare ones. So a chunk has one of many
topics, a hundred chunks each: its vector lies around the topic's, fifteen of its words are the
topic's own, the rest by Zipf's law. Cosines are as bge-small's on real texts: about 0.45 between
any two chunks, 0.70 within a topic, 0.8 to the nearest. numpy alone is used here, because peers
run in environments of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIMENSION = 384
BLOCK = 1_000
CHUNKS_A_TOPIC = 100
# Of each chunk between these, so that scores of words are as seldom equal as in real texts.
WORDS_A_CHUNK = (60, 100)
TOPIC_WORDS = 30
VOCABULARY = 50_000
YEARS = 20
SHARDS = 1_000

# Squared shares of a vector: what all have in common, the topic, the chunk itself.
COMMON, TOPIC, OWN = 0.45, 0.25, 0.30
# How fast the spread falls with the dimension, so that some forty of them count.
FALL = 0.5

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Passage:
    number: int
    text: str
    vector: Vectors  # (DIMENSION,), of length 1

    @property
    def year(self) -> int:
        """One of 20."""
        return 2000 + self.number % YEARS

    @property
    def shard(self) -> int:
        """One of 1,000."""
        return self.number % SHARDS


class Source:
    """All chunks of a corpus of one size, and queries for it."""

    def __init__(self, size: int) -> None:
        random = np.random.default_rng(0)
        topics = max(10, size // CHUNKS_A_TOPIC)
        self.size = size
        self.words = np.array([f"w{number}" for number in range(VOCABULARY)])
        shares = 1 / np.arange(1, VOCABULARY + 1)
        self.cumulated = np.cumsum(shares / shares.sum())
        self.common = unit(random.normal(size=(1, DIMENSION)).astype(np.float32))
        self.centres = spread(random, topics)
        # Neither the commonest words nor the rarest.
        self.topic_words = random.integers(100, VOCABULARY // 2, size=(topics, TOPIC_WORDS))

    def passages(self) -> Iterator[Passage]:
        for first in range(0, self.size, BLOCK):
            random = np.random.default_rng((1, first))
            count = min(BLOCK, self.size - first)
            topics = random.integers(len(self.centres), size=count)
            vectors = self._vectors(random, topics)
            least, most = WORDS_A_CHUNK
            words = self._words(random, topics, most, least // 4)
            lengths = random.integers(least, most, size=count)
            for place, length in enumerate(lengths):
                yield Passage(first + place, " ".join(words[place, :length]), vectors[place])

    def queries(self, count: int) -> list[tuple[str, Vectors]]:
        """Return texts of five words, three of them a topic's, each with a vector of the topic."""
        random = np.random.default_rng(2)
        topics = random.integers(len(self.centres), size=count)
        words = self._words(random, topics, 5, 3)
        texts = [" ".join(row) for row in words]
        return list(zip(texts, self._vectors(random, topics), strict=True))

    def _vectors(self, random: np.random.Generator, topics: NDArray[np.int64]) -> Vectors:
        own = spread(random, len(topics))
        return unit(COMMON**0.5 * self.common + TOPIC**0.5 * self.centres[topics] + OWN**0.5 * own)

    def _words(
        self, random: np.random.Generator, topics: NDArray[np.int64], count: int, of_topic: int
    ) -> NDArray[np.str_]:
        """(len(topics), count), the topic's own first."""
        places = random.integers(TOPIC_WORDS, size=(len(topics), of_topic))
        own = np.take_along_axis(self.topic_words[topics], places, axis=1)
        drawn = random.random((len(topics), count - of_topic))
        common = np.minimum(np.searchsorted(self.cumulated, drawn), VOCABULARY - 1)
        chosen: NDArray[np.str_] = self.words[np.concatenate([own, common], axis=1)]
        return chosen


def spread(random: np.random.Generator, count: int) -> Vectors:
    """Return directions, (count, DIMENSION), that differ in some dimensions more than in others."""
    scale = np.arange(1, DIMENSION + 1, dtype=np.float32) ** -FALL
    return unit(random.normal(size=(count, DIMENSION)).astype(np.float32) * scale)


def unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = vectors / lengths
    return scaled.astype(np.float32)
