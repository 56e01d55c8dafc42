"""Making API keys."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from pydantic import ValidationError

from deployments.auth import digest_of, new_key
from deployments.cli.console import console, one_line_errors
from deployments.config import ApiKeyArgs
from deployments.options import ConfigError, first_error

keys = typer.Typer(help="API keys.", no_args_is_help=True)


@keys.command()
def new(
    tenant: Annotated[str, typer.Option(help="whose corpora, retrievals and reports it sees")],
    role: Annotated[str, typer.Option(help="read, write or admin")],
    name: Annotated[str | None, typer.Option(help="what it is for; else made up")] = None,
) -> None:
    """Make an API key, which is shown this once, and the entry that lets it in."""
    key = new_key()
    with one_line_errors():
        entry = entry_of(key, tenant, role, name)
    print(key)
    console.print("\nKeep it: it is stored nowhere. Its entry below `args:`:\n", soft_wrap=True)
    print(yaml_of(entry))


def entry_of(key: str, tenant: str, role: str, name: str | None) -> ApiKeyArgs:
    """Return the entry of a key. Raises ConfigError for a role or a name that is none."""
    digest = digest_of(key)
    entry = {"name": name or f"{role}-{digest[:8]}", "sha256": digest}
    try:
        return ApiKeyArgs.model_validate({**entry, "tenant": tenant, "role": role})
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(f"--{field}: {message}") from None


def yaml_of(entry: ApiKeyArgs) -> str:
    """Write the entry as it stands in the configuration; quoted, as a tenant may be named 12."""
    first, *others = (f"{field}: {json.dumps(value)}" for field, value in entry)
    return "\n".join(
        ["auth:", "  api_keys:", f"    - {first}", *(f"      {one}" for one in others)]
    )
