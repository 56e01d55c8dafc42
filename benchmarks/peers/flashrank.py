"""FlashRank's Ranker, our model in the place of one that it knows; it has no batch size."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from flashrank import Ranker, RerankRequest
from flashrank.Config import default_model, model_file_map

from benchmarks.peers.protocol import Score, answer_lines


def load(folder: Path) -> Score:
    with tempfile.TemporaryDirectory() as cache:
        place = Path(cache) / default_model
        place.mkdir()
        for file in folder.iterdir():
            (place / file.name).symlink_to(file)
        (place / model_file_map[default_model]).symlink_to(folder / "model.onnx")
        ranker = Ranker(default_model, cache_dir=cache, max_length=512)

    def score(query: str, texts: list[str], batch: int | None) -> list[float]:
        passages = [{"id": number, "text": text} for number, text in enumerate(texts)]
        ranked = ranker.rerank(RerankRequest(query, passages))
        return [logit(one["score"]) for one in sorted(ranked, key=lambda one: one["id"])]

    return score


def logit(probability: float) -> float:
    """Undo its sigmoid: exact to 1e-3 only, since it is taken in single precision."""
    value = min(max(float(probability), 1e-30), 1 - 2**-24)
    return math.log(value / (1 - value))


if __name__ == "__main__":
    answer_lines(load, "flashrank", "onnxruntime", "tokenizers")
