"""Validating a Serve configuration file before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deployments.cli.settings_file import COMPOSER, applications_of, parse, read_text
from deployments.config import AppArgs, with_user_config


def check_file(path: Path) -> int:
    """Check every Onepass application that the file names; return how many there are.

    Raises ConfigError, one line, for the first wrong option.
    """
    return check_text(read_text(path), str(path))


def check_text(text: str, name: str) -> int:
    """Check a file's content likewise; `name` begins the messages about the file as a whole."""
    applications = applications_of(parse(text, name), name)
    for application in applications:
        check_application(application)
    return len(applications)


def check_application(application: dict[str, Any]) -> None:
    args = AppArgs.model_validate(application.get("args") or {})
    for deployment in application.get("deployments") or []:
        if isinstance(deployment, dict) and deployment.get("name") == COMPOSER:
            with_user_config(args, deployment.get("user_config") or {})
