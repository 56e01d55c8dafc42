"""`onepass models`: pull, list and verify the bundled models."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from deployments.cli.console import console, errors, one_line_errors, stop
from deployments.folders import models_folder
from deployments.inference.bundles import BUNDLES, DEFAULT_BUNDLES
from deployments.inference.pulling import list_models, pull_all, verify

models = typer.Typer(help="The bundled models.", no_args_is_help=True)

Names = Annotated[
    list[str] | None,
    typer.Argument(help="bundles; those of the shipped configuration if none is named"),
]


@models.command("pull")
def pull_models(
    names: Names = None,
    fp16: Annotated[bool, typer.Option(help="also make the fused fp16 graph for a GPU")] = False,
) -> None:
    """Fetch, check and convert bundles; those that are there already are left alone."""
    wanted = known_names(names)
    with one_line_errors(), Progress(console=errors) as progress:
        bar = progress.add_task("models are here", total=1, completed=1)
        folders = pull_all(
            wanted,
            lambda doing, share: progress.update(bar, description=doing, completed=share),
            fp16=fp16,
        )
    for folder in folders:
        console.print(str(folder), markup=False, soft_wrap=True)


@models.command("list")
def list_bundles() -> None:
    """Show each bundle, whether it is here, and its fingerprint."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "kind", "licence", "here", "MB", "fingerprint"):
        table.add_column(column, no_wrap=True)
    for row in list_models():
        table.add_row(
            row.name,
            row.kind,
            row.licence,
            "yes" if row.present else "no",
            f"{row.size / 1e6:.0f}" if row.present else "-",
            row.fingerprint.rpartition("@")[2] if row.fingerprint else "-",
        )
    console.print(table)
    console.print(f"in {models_folder()}", markup=False, soft_wrap=True)


@models.command("verify")
def verify_models(names: Names = None) -> None:
    """Compute the digests of pulled bundles again; exit 1 if any differs."""
    sound = True
    for name in known_names(names):
        problems = verify(name)
        sound = sound and not problems
        console.print(f"{name}: {'; '.join(problems) or 'sound'}", markup=False)
    if not sound:
        raise typer.Exit(1)


def known_names(names: list[str] | None) -> list[str]:
    for name in names or []:
        if name not in BUNDLES:
            stop(f"no such bundle; known: {', '.join(BUNDLES)}", status=2)
    return names or list(DEFAULT_BUNDLES)
