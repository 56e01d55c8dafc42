"""Scores of the real cross-encoder beside those of its stored graph, fed by the library's ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tokenizers import Tokenizer

from deployments.inference.batching import Batcher
from deployments.inference.cross_encoder import CrossEncoder
from deployments.inference.score_cache import ScoreCache
from pipeline.scoring import Pair
from pipeline.stamps import pair_digest

MINILM = "ms-marco-MiniLM-L-12-v2"
QUERY = "How many people live in Berlin?"
SENTENCE = "The city on the river has a population of three million people in twelve districts. "
LENGTHS = (0, 3, 20, 60, 200, 492, 493, 494, 600, 2000)


@pytest.fixture(scope="module")
def expected(bundles: dict[str, Path]) -> dict[str, float]:
    """Each text's logit: its pair alone, as the tokenizers library and the stored graph have it."""
    folder = bundles[MINILM]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(512, strategy="only_second")
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    logits = {}
    for text in texts():
        encoding = tokenizer.encode(QUERY, text)
        feeds = {
            "input_ids": np.array([encoding.ids]),
            "attention_mask": np.array([encoding.attention_mask]),
            "token_type_ids": np.array([encoding.type_ids]),
        }
        logits[text] = float(session.run(None, feeds)[0][0, 0])
    return logits


def texts() -> list[str]:
    words = (SENTENCE * 200).split()
    return [" ".join(words[:length]) for length in LENGTHS]


async def score(batcher: Batcher, wanted: list[str]) -> dict[str, float]:
    pairs = [Pair(pair_digest(QUERY, text), text) for text in wanted]
    outcomes = await batcher.score("t", QUERY, pairs, 60.0)
    assert {outcome.origin for outcome in outcomes} == {"pass"}
    return {
        text: outcome.score.logit
        for text, outcome in zip(wanted, outcomes, strict=True)
        if outcome.score is not None
    }


async def test_a_score_is_the_stored_graphs_own_alone_and_in_any_company(
    minilm: CrossEncoder, expected: dict[str, float]
) -> None:
    batcher = Batcher(minilm, ScoreCache(0), threads=2)
    batcher.start()
    together = await score(batcher, texts())
    backwards = await score(batcher, texts()[::-1])
    alone = {text: (await score(batcher, [text]))[text] for text in texts()}
    await batcher.close()
    for scores in (together, backwards, alone):
        assert scores == pytest.approx(expected, abs=1e-4)
