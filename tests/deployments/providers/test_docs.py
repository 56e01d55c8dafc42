"""docs/providers.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.options import Options
from deployments.provider_options import ChatArgs, FallbackArgs, ProviderArgs, WebSearchArgs
from deployments.providers.dialects import DIALECTS
from deployments.providers.web import TITLE_CHARS, URL_CHARS

PAGE = (Path(__file__).parents[3] / "docs" / "providers.md").read_text()
KINDS: dict[str, type[Options]] = {
    "scorer": ProviderArgs,
    "fallback": FallbackArgs,
    "shadow": ProviderArgs,
    "chat": ChatArgs,
    "web_search": WebSearchArgs,
}


def examples() -> list[tuple[str, Any]]:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    return [(key, block[key]) for block in blocks for key in block if key in KINDS]


@pytest.mark.parametrize(("key", "value"), examples())
def test_an_example_is_a_configuration(key: str, value: Any) -> None:
    for options in value if isinstance(value, list) else [value]:
        KINDS[key].model_validate(options)


def test_there_is_an_example_of_every_key_and_dialect() -> None:
    assert {key for key, _ in examples()} == set(KINDS)
    assert {value["dialect"] for key, value in examples() if key == "scorer"} == set(DIALECTS)


def test_the_table_holds_every_dialect_as_it_is() -> None:
    rows = [
        f"| `{name}` | `{dialect.path}` | {dialect.max_documents} | {dialect.scale} |"
        for name, dialect in DIALECTS.items()
    ]
    assert "\n".join(rows) in PAGE


def test_the_bounds_on_a_web_result_are_the_codes() -> None:
    assert f"cut to {TITLE_CHARS} characters" in PAGE
    assert f"up to {URL_CHARS:,} characters" in PAGE
