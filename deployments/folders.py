"""Where models and data lie on this machine; ONEPASS_HOME moves both."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

APP = "onepass"


def models_folder() -> Path:
    """$ONEPASS_HOME/models, else models/ in the platform's cache folder."""
    moved = home()
    return moved / "models" if moved else user_cache_path(APP) / "models"


def data_folder() -> Path:
    """$ONEPASS_HOME/data, else the platform's folder for user data."""
    moved = home()
    return moved / "data" if moved else user_data_path(APP)


def home() -> Path | None:
    value = os.environ.get("ONEPASS_HOME")
    return Path(value).expanduser() if value else None
