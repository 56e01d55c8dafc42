"""Generate docs/configuration.md from the classes of options, or check that it is up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from deployments.config import AppArgs

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

Generated from the classes of options by `python scripts/options.py`; do not edit by hand.

These stand under `args:` of the application in serve_config.yaml. What stands under `search` may
also stand in the Composer's `user_config` (without the word `search`), where a change needs no
restart, under `corpora.NAME` of either for one corpus, and in a request. Precedence: request,
corpus, `user_config`, `args`, default. Objects are merged key by key; a request's `filter` and
`sources` are added to the configured ones, so that it can narrow a search and never widen it.

| option | default | why |
|---|---|---|
"""


def main() -> None:
    page = HEAD + "".join(rows(AppArgs, "", set()))
    if "--check" not in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit("docs/configuration.md is out of date: run python scripts/options.py")


def rows(model: type[BaseModel], prefix: str, seen: set[type[BaseModel]]) -> list[str]:
    """One row an option; those of an object follow its own row, at its first place alone."""
    table: list[str] = []
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        inner = options_in(field.annotation)
        default = "…" if inner and not is_plain(field.default) else shown(field.default)
        table.append(f"| `{path}` | {default} | {field.description} |\n")
        below = f"{path}[]." if get_origin(field.annotation) is list else f"{path}."
        for kind in inner:
            if kind in seen:
                continue
            seen.add(kind)
            if len(inner) > 1:
                table.append(
                    f"| *`{path}`* | | *{(kind.__doc__ or kind.__name__).splitlines()[0]}* |\n"
                )
            table += rows(kind, below, seen)
    return table


def options_in(annotation: Any) -> list[type[BaseModel]]:
    """The classes of options in a type, wherever in it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [kind for part in get_args(annotation) for kind in options_in(part)]


def is_plain(default: Any) -> bool:
    return default is None or isinstance(default, list)


def shown(default: Any) -> str:
    if default in (PydanticUndefined, ...):
        return "required"
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


if __name__ == "__main__":
    main()
