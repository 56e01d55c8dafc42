"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[str, typer.Option(envvar="ONEPASS_URL", help="where the application listens")]
Corpus = Annotated[str, typer.Option(help="the corpus")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object instead of tables")]
