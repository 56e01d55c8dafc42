"""Memory of a session on the CPU, at real size: it comes to an end."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.architectures import bert_graph
from benchmarks.encoders import random_weights
from deployments.inference.bert_graphs import Shape
from deployments.inference.sessions import Device, Session, open_session

# Activations do not depend on how many layers follow each other: two are as many as six.
TWO_OF_MINILM = Shape("MiniLM-L2", 2, 384, 12, 1536, vocabulary=1000)
WINDOW = 512
BUDGET = 512
BATCHES = 300
CALLERS = 2
MEGABYTE = 2**20


def test_memory_ends_growing_over_batches_of_many_shapes() -> None:
    session = open_session(
        bert_graph(TWO_OF_MINILM, random_weights(TWO_OF_MINILM)).SerializeToString(), Device("cpu")
    )
    lengths = np.random.default_rng(5).integers(20, WINDOW + 1, BATCHES)
    with ThreadPoolExecutor(CALLERS) as callers:
        for shape in session.backend.shapes(WINDOW, BUDGET):
            list(callers.map(lambda one: score(session, *one), [shape] * CALLERS))
        before = resident_bytes()
        shapes = [(max(1, BUDGET // int(length)), int(length)) for length in lengths]
        list(callers.map(lambda shape: score(session, *shape), shapes))
    assert (resident_bytes() - before) / MEGABYTE < 32


def score(session: Session, rows: int, length: int) -> NDArray[np.float32]:
    ids = np.full((rows, length), 7, np.int64)
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": ids * 0}
    return session.run(feeds, session.outputs[0])


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
