"""Validating a Serve configuration file before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deployments.config import AppArgs, with_user_config
from deployments.options import ConfigError

IMPORT_PATH = "deployments.app:build"


def check_file(path: Path) -> int:
    """Check every Onepass application that the file names; return how many there are.

    Raises ConfigError, one line, for the first wrong option.
    """
    try:
        config = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    listed = config.get("applications") if isinstance(config, dict) else None
    ours = [one for one in listed or [] if is_ours(one)]
    if not ours:
        raise ConfigError(f"{path}: no application has import_path: {IMPORT_PATH}")
    for application in ours:
        check_application(application)
    return len(ours)


def is_ours(application: Any) -> bool:
    return isinstance(application, dict) and application.get("import_path") == IMPORT_PATH


def check_application(application: dict[str, Any]) -> None:
    args = AppArgs.model_validate(application.get("args") or {})
    for deployment in application.get("deployments") or []:
        if isinstance(deployment, dict) and deployment.get("name") == "Composer":
            with_user_config(args, deployment.get("user_config") or {})
