"""ONNX Runtime as one would begin: batches in order of arrival, each padded to its longest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from benchmarks.peers.protocol import Score, answer_lines
from deployments.inference.cpus import usable_cpus

DEFAULT_BATCH = 32
WINDOW = 512


def load(folder: Path) -> Score:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = usable_cpus()
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, ["CPUExecutionProvider"]
    )
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(WINDOW, strategy="only_second")
    tokenizer.enable_padding()

    def score(query: str, texts: list[str], batch: int | None) -> list[float]:
        logits: list[float] = []
        size = batch or DEFAULT_BATCH
        for start in range(0, len(texts), size):
            some = texts[start : start + size]
            encoded = tokenizer.encode_batch([(query, text) for text in some])
            feeds = {
                "input_ids": np.array([one.ids for one in encoded]),
                "attention_mask": np.array([one.attention_mask for one in encoded]),
                "token_type_ids": np.array([one.type_ids for one in encoded]),
            }
            logits += session.run(["logits"], feeds)[0][:, 0].tolist()
        return logits

    return score


if __name__ == "__main__":
    answer_lines(load)
