"""CTranslate2 in fp32 on the converted encoder.

It knows no sequence classification: encoder and pooler are its own, the classifier (one dot
product a pair) is done here. Neither has it a loop over a request, so this one is ours: at the
default, batches of 32 in order of arrival; else of the size asked for, longest first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import ctranslate2
import numpy as np
from ctranslate2.converters import TransformersConverter
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from benchmarks.peers.protocol import Score, answer_lines

DEFAULT_BATCH = 32
WINDOW = 512


def load(folder: Path) -> Score:
    with tempfile.TemporaryDirectory() as parent:
        converted = TransformersConverter(str(folder)).convert(f"{parent}/model")
        encoder = ctranslate2.Encoder(converted, device="cpu", compute_type="float32")
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
        logits = np.empty(len(texts), np.float32)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            some = [encoded[index] for index in chosen]
            output = encoder.forward_batch(
                [one.ids for one in some], token_type_ids=[one.type_ids for one in some]
            )
            logits[chosen] = np.array(output.pooler_output) @ weight + bias
        return logits.tolist()

    return score


if __name__ == "__main__":
    answer_lines(load, "ctranslate2", "transformers", "torch")
