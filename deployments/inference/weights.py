"""The weights of a model's folder, opened on a device in the precision that suits it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.external_data_helper import uses_external_data

from deployments.inference.absorbing import absorb_projections
from deployments.inference.backends import CPU
from deployments.inference.conversion import serialise
from deployments.inference.cutting import CUT, cut_to_first_token
from deployments.inference.errors import ModelError
from deployments.inference.sessions import (
    INPUT_TYPES,
    OPEN_ERRORS,
    Device,
    Session,
    open_session,
)
from deployments.inference.settings import find_weights
from deployments.inference.tokens import PairTokenizer

logger = logging.getLogger(__name__)

Feeds = Mapping[str, NDArray[np.int64]]

FED_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# Cut and whole graphs differ by rounding alone.
CUT_TOLERANCE = 1e-4
PROBE_QUERY = "How many people live in Berlin?"
PROBE_TEXTS = (
    "Berlin has about 3.5 million registered inhabitants in an area of 891 square kilometres.",
    "Museums are closed today.",
    "The first museum was built by the river, and others followed on the same island. " * 4,
    "",
)


def open_weights(
    folder: Path, device: Device, precision: str, probes: Sequence[Feeds] = ()
) -> tuple[str, Path, Session]:
    """Return the precision in use, its file, and the session.

    Where there are `probes`, batches of a cross-encoder's tokens, its last layer is cut to the
    first token, if the cut graph scores them as the whole one does. fp16 weights are stored cut.
    """
    half, full = find_weights(folder, "fp16"), find_weights(folder, "fp32")
    if precision == "auto" and half is not None and device.provider != "cpu":
        session = open_file(half, device)
        if session.provider != CPU:
            return "fp16", half, session
    if precision == "fp16":
        if half is None:
            raise ModelError(f"{folder} has no fp16 weights: pull the model with fp16")
        return "fp16", half, open_file(half, device)
    if full is None:
        raise ModelError(f"{folder} has no fp32 weights")
    session, _ = open_cut(full, device, probes) if probes else (open_file(full, device), None)
    if session.provider != CPU:
        logger.info("%s runs in fp32 on the GPU: pull it with fp16 to halve the cost", folder.name)
    return "fp32", full, session


def open_cut(path: Path, device: Device, probes: Sequence[Feeds]) -> tuple[Session, bytes | None]:
    """Open a file's graph with its last layer cut to the first token; return the cut graph too.

    Where the layer is not recognised or a probe's score changes, which is logged, the session is
    of the whole graph, and there is no other.
    """
    whole = open_file(path, device)
    model = try_to_cut(path)
    if model is None:
        logger.info("%s runs whole: its last layer cannot be cut to the first token", path)
        return whole, None
    expected = score_probes(whole, probes)
    del whole  # large, and another follows
    cut = open_agreeing(model, device, f"{path}, cut", probes, expected)
    return (cut, model) if cut else (open_file(path, device), None)


def open_agreeing(
    model: bytes,
    device: Device,
    name: str,
    probes: Sequence[Feeds],
    expected: Sequence[NDArray[np.float32]],
) -> Session | None:
    """Open a rewritten graph if it gives the expected scores; if not, log that."""
    try:
        session = open_session(model, device, name)
        difference = largest_difference(score_probes(session, probes), expected)
    except (ModelError, *OPEN_ERRORS) as error:
        logger.warning("%s, is not used, since it fails: %s", name, error)
        return None
    if not difference <= CUT_TOLERANCE:  # NaN included
        logger.warning("%s, is not used, since scores change by %.1e", name, difference)
        return None
    return session


def open_file(path: Path, device: Device) -> Session:
    """Open a file; ModelError also for a graph that declares what we cannot feed."""
    session = open_session(path, device)
    for name, kind in session.inputs.items():
        if name not in FED_INPUTS or kind not in INPUT_TYPES:
            known = ", ".join(FED_INPUTS)
            raise ModelError(f"{path} declares the input {name} ({kind}); known are {known}")
    if "input_ids" not in session.inputs:
        raise ModelError(f"{path} does not declare the input input_ids")
    return session


def try_to_cut(path: Path) -> bytes | None:
    """Return a file's graph, cut, or None where that cannot be."""
    try:
        return cut_file(path)
    except Exception:  # a graph of a kind not foreseen must not keep the model from running
        logger.exception("%s: cutting its last layer failed", path)
        return None


def cut_file(path: Path) -> bytes | None:
    """Return a file's graph, cut, or None if that cannot be, or its weights lie in other files."""
    model = onnx.load(path, load_external_data=False)
    if any(uses_external_data(weight) for weight in model.graph.initializer):
        return None
    if not cut_to_first_token(model):
        return None
    if not absorb_projections(model):
        logger.info("%s: its last layer keeps its keys and values", path)
    return serialise(model)


def is_cut(session: Session) -> bool:
    """Whether a session's graph computes its last layer for the first token only."""
    return CUT in session.runtime.get_modelmeta().custom_metadata_map


def probe_feeds(tokenizer: PairTokenizer) -> list[Feeds]:
    """Return batches of real tokens: one pair alone, and some of different lengths, padded."""
    pairs = tokenizer.encode_pairs(PROBE_QUERY, PROBE_TEXTS)
    return [tokenizer.pad(pairs[:1]), tokenizer.pad(pairs)]


def score_probes(session: Session, probes: Sequence[Feeds]) -> list[NDArray[np.float32]]:
    output = session.pick_output("logits")
    return [session.run(feeds, output) for feeds in probes]


def largest_difference(
    scores: Sequence[NDArray[np.float32]], expected: Sequence[NDArray[np.float32]]
) -> float:
    """Return the largest difference of any two scores; NaN if one is no number, or is missing."""
    pairs = list(zip(scores, expected, strict=True))
    if any(score.shape != other.shape for score, other in pairs):
        return math.nan
    return float(np.max([np.abs(score - other).max() for score, other in pairs]))
