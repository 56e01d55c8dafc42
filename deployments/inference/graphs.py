"""A model ready to run: its graph on a device, its tokenizer, its settings, its fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deployments.inference.errors import ModelError
from deployments.inference.sessions import Device, Session
from deployments.inference.settings import (
    PRECISIONS,
    TOKENIZER_FILE,
    ModelSettings,
    digest_file,
    digest_weights,
    fingerprint,
    missing_files,
)
from deployments.inference.tokens import EncodedPair, PairTokenizer
from deployments.inference.weights import is_cut, open_weights, probe_feeds


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """A loaded model. Any number of threads may share it.

    `cut`: its last layer is computed for the first token only, which is all that a score reads.
    """

    settings: ModelSettings
    session: Session
    output: str
    tokenizer: PairTokenizer
    precision: str
    cut: bool
    fingerprint: str

    def run(self, batch: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Return the output of one forward pass over the batch, padded as suits the device.

        Rows that only fill up repeat the last pair: one that is all padding may give NaN.
        """
        longest = max(pair.length for pair in batch)
        rows, length = self.session.backend.fit(len(batch), longest, self.settings.max_tokens)
        filled = [*batch, *[batch[-1]] * (rows - len(batch))]
        return self.session.run(self.tokenizer.pad(filled, length), self.output)[: len(batch)]


def open_graph(
    folder: Path, settings: ModelSettings, output: str, device: Device, precision: str = "auto"
) -> ModelGraph:
    """Load the graph and tokenizer in a folder; `output` is the usual name of the output wanted.

    `precision` is fp32, fp16, or auto: fp16 on a GPU where such weights have been made. On a
    CPU, fp16 is about four times slower than fp32.
    """
    missing = missing_files(folder)
    if missing:
        raise ModelError(f"{folder} lacks {' and '.join(missing)}")
    if precision not in ("auto", *PRECISIONS):
        raise ModelError(f"precision must be auto, fp32 or fp16, not {precision!r}")
    tokenizer_file = folder / TOKENIZER_FILE
    tokenizer = PairTokenizer(tokenizer_file, settings.max_tokens, settings.truncation)
    probes = probe_feeds(tokenizer) if settings.kind == "cross_encoder" else ()
    used, weights, session = open_weights(folder, device, precision, probes)
    return ModelGraph(
        settings=settings,
        session=session,
        output=session.pick_output(output),
        tokenizer=tokenizer,
        precision=used,
        cut=is_cut(session),
        fingerprint=fingerprint(
            settings, digest_weights(weights), digest_file(tokenizer_file), used
        ),
    )
