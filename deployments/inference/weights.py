"""The weights of a model's folder, opened on a device in the precision that suits it."""

from __future__ import annotations

import logging
from pathlib import Path

from deployments.inference.errors import ModelError
from deployments.inference.sessions import CPU, Device, Session, open_session
from deployments.inference.settings import find_weights

logger = logging.getLogger(__name__)


def open_weights(folder: Path, device: Device, precision: str) -> tuple[str, Path, Session]:
    """Return the precision in use, its file, and the session."""
    half, full = find_weights(folder, "fp16"), find_weights(folder, "fp32")
    if precision == "auto" and half is not None and device.provider != "cpu":
        session = open_session(half, device)
        if session.provider != CPU:
            return "fp16", half, session
    if precision == "fp16":
        if half is None:
            raise ModelError(f"{folder} has no fp16 weights: pull the model with fp16")
        return "fp16", half, open_session(half, device)
    if full is None:
        raise ModelError(f"{folder} has no fp32 weights")
    session = open_session(full, device)
    if session.provider != CPU:
        logger.info("%s runs in fp32 on the GPU: pull it with fp16 to halve the cost", folder.name)
    return "fp32", full, session
