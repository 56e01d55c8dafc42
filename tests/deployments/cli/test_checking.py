from __future__ import annotations

from pathlib import Path

import pytest

from deployments.cli.checking import check_file
from deployments.options import ConfigError

ROOT = Path(__file__).parents[3]
APPLICATION = "applications:\n- import_path: deployments.app:build\n"


def test_the_shipped_configuration_is_sound() -> None:
    assert check_file(ROOT / "serve_config.yaml") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("applications: [", "while parsing"),
        ("applications: []", "no application has import_path"),
        ("[]", "no application has import_path"),
        ("applications: 5", "no application has import_path"),
        (APPLICATION + "  deployments: [Composer]", "deployments must be a list of objects"),
        (APPLICATION + "  args: {scorer: {thread: 2}}\n", "configuration: scorer.thread: Extra"),
        (APPLICATION + "  args: {scorer: {threads: 0}}\n", "configuration: scorer.threads"),
        (
            APPLICATION
            + "  args: {scorer: null}\n"
            + "  deployments: [{name: Composer, user_config: {rerank: {enabled: true}}}]\n",
            r"search\.rerank.* needs a scorer",
        ),
        (
            APPLICATION
            + "  deployments: [{name: Composer, user_config: {corrective: "
            + "{correct_threshold: 0.1}}}]\n",
            "incorrect_threshold must not exceed correct_threshold",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "serve_config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as refused:
        check_file(file)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        check_file(tmp_path / "missing.yaml")
