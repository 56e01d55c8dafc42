"""What the commands print to, and how they end when something is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console

from deployments.cli.client import ClientError
from deployments.cli.pieces import UnreadableFile
from deployments.options import ConfigError
from pipeline.errors import OnepassError

console = Console()
errors = Console(stderr=True)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a person can mend into one line and exit status 1."""
    try:
        yield
    except (ClientError, ConfigError, OnepassError, UnreadableFile) as error:
        stop(str(error))


def stop(message: str, status: int = 1) -> NoReturn:
    errors.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(status)
