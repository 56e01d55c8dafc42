"""Generate docs/configuration.md from deployments/config.py, or check that it is up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from deployments.config import AppArgs

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

Generated from `deployments/config.py` by `python scripts/options.py`; do not edit by hand.

These stand under `args:` of the application in serve_config.yaml. What stands under `search` may
also stand in the Composer's `user_config` (without the word `search`), where a change needs no
restart, and most of it in a request. Precedence: request, `user_config`, `args`, default.

| option | default | why |
|---|---|---|
"""


def main() -> None:
    page = HEAD + "".join(rows(AppArgs, ""))
    if "--check" not in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit("docs/configuration.md is out of date: run python scripts/options.py")


def rows(model: type[BaseModel], prefix: str) -> list[str]:
    """One row a leaf; an object's own row says what it is for."""
    table: list[str] = []
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        inner = next((kind for kind in kinds(field.annotation) if is_options(kind)), None)
        default = "…" if inner else shown(field.default)
        table.append(f"| `{path}` | {default} | {field.description} |\n")
        if inner is not None:
            table += rows(inner, f"{path}.")
    return table


def kinds(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) or (annotation,)


def is_options(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def shown(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


if __name__ == "__main__":
    main()
