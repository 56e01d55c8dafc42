from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import yaml

from deployments.cli.checking import check_text
from deployments.cli.settings_file import parse, with_thresholds
from deployments.options import ConfigError

ROOT = Path(__file__).parents[3]
SHIPPED = (ROOT / "serve_config.yaml").read_text("utf-8")


def change(text: str, corpus: str = "docs", correct: float = 0.6, incorrect: float = 0.05) -> str:
    return with_thresholds(text, corpus, correct, incorrect, "serve_config.yaml")


def added(old: str, new: str) -> list[str]:
    """The lines that are new; nothing may be gone."""
    lines = list(difflib.ndiff(old.splitlines(), new.splitlines()))
    assert [line for line in lines if line.startswith("- ")] == []
    return [line[2:] for line in lines if line.startswith("+ ")]


def test_thresholds_are_added_to_the_shipped_file_and_nothing_else_moves() -> None:
    assert added(SHIPPED, change(SHIPPED)) == [
        "          corpora:",
        "            docs:",
        "              corrective:",
        "                correct_threshold: 0.6",
        "                incorrect_threshold: 0.05",
    ]


def test_what_is_written_is_sound_and_says_what_was_asked() -> None:
    changed = change(SHIPPED)
    assert check_text(changed, "serve_config.yaml") == 1
    composer = next(
        one
        for one in yaml.safe_load(changed)["applications"][0]["deployments"]
        if one["name"] == "Composer"
    )
    assert composer["user_config"]["corpora"]["docs"]["corrective"] == {
        "correct_threshold": 0.6,
        "incorrect_threshold": 0.05,
    }


def test_a_second_calibration_replaces_the_first() -> None:
    once = change(SHIPPED)
    again = change(once, correct=0.7, incorrect=0.1)
    assert again == once.replace("0.6", "0.7").replace("0.05", "0.1")


def test_a_very_small_threshold_is_a_number_to_the_parser_that_serve_uses() -> None:
    changed = change(SHIPPED, correct=0.00002, incorrect=0.00001)
    assert "incorrect_threshold: 0.00001" in changed
    deployments = yaml.safe_load(changed)["applications"][0]["deployments"]
    (config,) = [one["user_config"] for one in deployments if one["name"] == "Composer"]
    assert config["corpora"]["docs"]["corrective"]["incorrect_threshold"] == 0.00001


@pytest.mark.parametrize("corpus", ["on", "no", "1_000", "2024", "2024-01-01", "1e3", "docs"])
def test_a_corpus_of_any_name_is_found_by_that_name(corpus: str) -> None:
    changed = change(SHIPPED, corpus)
    assert check_text(changed, "f") == 1
    assert change(changed, corpus) == changed
    deployments = yaml.safe_load(changed)["applications"][0]["deployments"]
    (config,) = [one["user_config"] for one in deployments if one["name"] == "Composer"]
    assert list(config["corpora"]) == [corpus]


def test_comments_before_the_next_part_stay_there() -> None:
    text = """\
applications:
- import_path: deployments.app:build
  deployments:
  - name: Composer
    user_config:
      # of every search
      top_k: 30
      corpora:
        other: {top_k: 5}
        news:
          corrective:
            enabled: true   # they are short

  # what the readers get
  - name: Retrieval
    num_replicas: 2
"""
    assert change(text) == text.replace(
        "            enabled: true   # they are short\n",
        "            enabled: true   # they are short\n"
        "        docs:\n"
        "          corrective:\n"
        "            correct_threshold: 0.6\n"
        "            incorrect_threshold: 0.05\n",
    )


def test_a_file_without_a_composer_gets_one() -> None:
    text = """\
applications:
  - import_path: deployments.app:build
    deployments:
      - name: Ingress
        num_replicas: 2   # one a node
# the end
"""
    assert change(text) == text.replace(
        "# the end\n",
        "      - name: Composer\n"
        "        user_config:\n"
        "          corpora:\n"
        "            docs:\n"
        "              corrective:\n"
        "                correct_threshold: 0.6\n"
        "                incorrect_threshold: 0.05\n"
        "# the end\n",
    )


def test_a_file_without_deployments_gets_them() -> None:
    changed = change("applications:\n- import_path: deployments.app:build\n")
    assert parse(changed, "f")["applications"][0]["deployments"][0]["name"] == "Composer"
    assert check_text(changed, "f") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("applications: []", "f: no application has import_path"),
        ("applications: [", "f: while parsing"),
        ("a: 1\nb: 1e-5\n", "f, line 2: write a dot into a number with an exponent"),
        (
            "applications:\n"
            "- {name: a, import_path: 'deployments.app:build'}\n"
            "- {name: b, import_path: 'deployments.app:build'}\n",
            "f: holds several Onepass applications",
        ),
    ],
)
def test_a_file_that_cannot_take_thresholds_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        with_thresholds(text, "docs", 0.6, 0.05, "f")
    assert "\n" not in str(refused.value)


SHARED = {
    "with another deployment": """\
  - {name: Retrieval, user_config: &shared {top_k: 5}}
  - {name: Composer, user_config: *shared}
""",
    "with another corpus": """\
  - name: Composer
    user_config:
      corpora:
        news: &shared
          corrective: {correct_threshold: 0.5, incorrect_threshold: 0.1}
        docs: *shared
""",
    "with what is merged into it": """\
  - name: Composer
    user_config:
      corpora:
        news: &shared
          corrective: {correct_threshold: 0.5, incorrect_threshold: 0.1}
        docs: {<<: *shared, top_k: 3}
""",
}


@pytest.mark.parametrize("deployments", SHARED.values(), ids=SHARED)
def test_thresholds_that_an_anchor_shares_are_to_be_written_by_hand(deployments: str) -> None:
    text = f"applications:\n- import_path: deployments.app:build\n  deployments:\n{deployments}"
    with pytest.raises(ConfigError) as refused:
        change(text, correct=0.6, incorrect=0.00001)
    assert str(refused.value) == (
        "serve_config.yaml: other settings would change too, as where an anchor is shared; write "
        "by hand into the corpus's corrective: correct_threshold: 0.6, incorrect_threshold: 0.00001"
    )


def test_an_anchor_that_the_thresholds_only_override_is_no_hindrance() -> None:
    text = """\
applications:
- import_path: deployments.app:build
  deployments:
  - name: Composer
    user_config:
      corpora:
        news:
          corrective: &shared
            correct_threshold: 0.5
            incorrect_threshold: 0.1
        docs:
          corrective:
            <<: *shared
            enabled: true
"""
    corpora = yaml.safe_load(change(text))["applications"][0]["deployments"][0]["user_config"]
    assert corpora["corpora"] == {
        "news": {"corrective": {"correct_threshold": 0.5, "incorrect_threshold": 0.1}},
        "docs": {
            "corrective": {
                "correct_threshold": 0.6,
                "incorrect_threshold": 0.05,
                "enabled": True,
            }
        },
    }


def test_a_corpus_that_serve_reads_as_no_text_is_not_taken_for_one() -> None:
    text = (
        "applications:\n- import_path: deployments.app:build\n"
        "  deployments: [{name: Composer, user_config: {corpora: {on: {top_k: 3}}}}]\n"
    )
    with pytest.raises(ConfigError, match="write by hand"):
        change(text, "on")


def test_words_are_read_as_the_parser_that_serve_uses_reads_them() -> None:
    text = "a: on\nb: 'on'\nc: 017\n"
    assert parse(text, "f") == yaml.safe_load(text) == {"a": True, "b": "on", "c": 15}
