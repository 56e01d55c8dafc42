"""fastembed's TextCrossEncoder on a folder of its own models' layout."""

from __future__ import annotations

from pathlib import Path

from fastembed.common.model_description import ModelSource
from fastembed.rerank.cross_encoder import TextCrossEncoder

from benchmarks.peers.protocol import Score, answer_lines

NAME = "benchmark/model"


def load(folder: Path) -> Score:
    TextCrossEncoder.add_custom_model(NAME, sources=ModelSource(hf=NAME), model_file="model.onnx")
    model = TextCrossEncoder(NAME, specific_model_path=str(folder), cuda=False)

    def score(query: str, texts: list[str], batch: int | None) -> list[float]:
        size = {} if batch is None else {"batch_size": batch}
        return list(model.rerank(query, texts, **size))

    return score


if __name__ == "__main__":
    answer_lines(load, "fastembed", "onnxruntime", "tokenizers")
