"""sentence-transformers' CrossEncoder, on torch or with the ONNX backend: it sorts by length."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder

from benchmarks.peers.protocol import Score, answer_lines

ONNX = {"provider": "CPUExecutionProvider", "file_name": "model.onnx", "export": False}


def load(folder: Path, backend: str) -> Score:
    model = CrossEncoder(
        str(folder),
        device="cpu",
        max_length=512,
        backend=backend,
        model_kwargs=ONNX if backend == "onnx" else None,
    )

    def score(query: str, texts: list[str], batch: int | None) -> list[float]:
        logits: list[float] = model.predict(
            [(query, text) for text in texts],
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
            **({} if batch is None else {"batch_size": batch}),
        ).tolist()
        return logits

    return score


if __name__ == "__main__":
    backend = sys.argv[3]
    runtime = ["onnxruntime", "optimum-onnx"] if backend == "onnx" else []
    answer_lines(
        functools.partial(load, backend=backend),
        *("sentence-transformers", "transformers", "torch", *runtime),
    )
