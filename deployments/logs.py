"""Our log lines among Serve's, with the replica and the request that they belong to."""

from __future__ import annotations

import logging

PACKAGES = ("deployments", "pipeline", "tracker")


def join_serve_log() -> None:
    """Send this process's log lines of INFO and above where Serve sends its own.

    A deployment calls this when it is made; without it Python prints warnings bare and drops
    what is below them.
    """
    handlers = logging.getLogger("ray.serve").handlers
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.setLevel(logging.INFO)
        logger.handlers = list(handlers)
        logger.propagate = not handlers
