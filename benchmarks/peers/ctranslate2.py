"""CTranslate2 in fp32 on the converted encoder.

It knows no sequence classification: encoder and pooler are its own, the classifier (one dot
product a pair) is done here. Neither has it a loop over a request, so this one is ours. The
default is an encoder at its defaults, given batches of 32 in order of arrival; a batch size asked
for gets what was found to be its fastest layout: longest first, and an encoder of one thread a
batch that runs as many batches at once as there are cores.
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ctranslate2
import numpy as np
from ctranslate2.converters import TransformersConverter
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Encoding, Tokenizer

from benchmarks.peers.protocol import Score, answer_lines

DEFAULT_BATCH = 32
WINDOW = 512


def load(folder: Path) -> Score:
    cores = len(os.sched_getaffinity(0))
    plain, parallel = load_encoders(folder, {}, {"inter_threads": cores, "intra_threads": 1})
    pool = ThreadPoolExecutor(cores)
    weights = load_file(folder / "model.safetensors")
    weight, bias = weights["classifier.weight"][0], weights["classifier.bias"][0]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(WINDOW, strategy="only_second")
    tokenizer.no_padding()

    def score(query: str, texts: list[str], batch: int | None) -> list[float]:
        encoded = tokenizer.encode_batch([(query, text) for text in texts])
        order = list(range(len(texts)))
        if batch is not None:
            order.sort(key=lambda index: -len(encoded[index].ids))
        size = batch or DEFAULT_BATCH
        chosen = [order[start : start + size] for start in range(0, len(order), size)]

        def pool_batch(indices: list[int]) -> NDArray[np.float32]:
            encoder = plain if batch is None else parallel
            return pooled(encoder, [encoded[index] for index in indices])

        run = map if batch is None else pool.map
        logits = np.empty(len(texts), np.float32)
        logits[order] = np.concatenate(list(run(pool_batch, chosen))) @ weight + bias
        return list(logits.tolist())

    return score


def load_encoders(folder: Path, *layouts: dict[str, int]) -> list[ctranslate2.Encoder]:
    with tempfile.TemporaryDirectory() as parent:
        converted = TransformersConverter(str(folder)).convert(f"{parent}/model")
        return [
            ctranslate2.Encoder(converted, device="cpu", compute_type="float32", **layout)
            for layout in layouts
        ]


def pooled(encoder: ctranslate2.Encoder, pairs: list[Encoding]) -> NDArray[np.float32]:
    """The pooler's output (n, width) of one forward pass."""
    output = encoder.forward_batch(
        [pair.ids for pair in pairs], token_type_ids=[pair.type_ids for pair in pairs]
    )
    return np.array(output.pooler_output)


if __name__ == "__main__":
    answer_lines(load, "ctranslate2", "transformers", "torch")
