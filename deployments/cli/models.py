"""`onepass models`: pull, list and verify the bundled models."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from deployments.inference.bundles import BUNDLES
from deployments.inference.pulling import list_models, pull_all, verify
from pipeline.errors import OnepassError

models = typer.Typer(help="The bundled models.", no_args_is_help=True)
console = Console()
errors = Console(stderr=True)

Names = Annotated[list[str] | None, typer.Argument(help="bundles; all if none is named")]


@models.command("pull")
def pull_models(
    names: Names = None,
    fp16: Annotated[bool, typer.Option(help="also make the fused fp16 graph for a GPU")] = False,
) -> None:
    """Fetch, check and convert bundles; those that are there already are left alone."""
    wanted = checked(names)
    with Progress(console=errors) as progress:
        bar = progress.add_task("models", total=1.0)
        try:
            folders = pull_all(
                wanted,
                lambda doing, share: progress.update(bar, description=doing, completed=share),
                fp16=fp16,
            )
        except OnepassError as error:
            errors.print(str(error), style="red", markup=False)
            raise typer.Exit(1) from None
    for folder in folders:
        console.print(str(folder), markup=False, soft_wrap=True)


@models.command("list")
def list_bundles() -> None:
    """Show each bundle, whether it is here, and its fingerprint."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "kind", "licence", "here", "MB", "fingerprint", "path"):
        table.add_column(column)
    for row in list_models():
        table.add_row(
            row.name,
            row.kind,
            row.licence,
            "yes" if row.present else "no",
            f"{row.size / 1e6:.0f}" if row.present else "-",
            row.fingerprint or "-",
            str(row.path),
        )
    console.print(table)


@models.command("verify")
def verify_models(names: Names = None) -> None:
    """Compute the digests of pulled bundles again; exit 1 if any differs."""
    sound = True
    for name in checked(names):
        problems = verify(name)
        sound = sound and not problems
        console.print(f"{name}: {'; '.join(problems) or 'sound'}", markup=False)
    if not sound:
        raise typer.Exit(1)


def checked(names: list[str] | None) -> list[str]:
    for name in names or []:
        if name not in BUNDLES:
            errors.print(f"no such bundle; known: {', '.join(BUNDLES)}", style="red", markup=False)
            raise typer.Exit(2)
    return names or list(BUNDLES)
