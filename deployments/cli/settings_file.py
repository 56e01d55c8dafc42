"""A Serve configuration file: read as Serve reads it, changed with comments and layout kept."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.tokens import CommentToken
from ruamel.yaml.util import load_yaml_guess_indent

from deployments.options import ConfigError

IMPORT_PATH = "deployments.app:build"
COMPOSER = "Composer"
WIDEST = 4096
# Where the parser keeps the comment behind a value, of the four it keeps for a key or an index.
MAPPING_SLOT, SEQUENCE_SLOT = 2, 0
EMPTY: tuple[Any, ...] = (None, None, None, None)


def read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None


def parse(text: str, name: str) -> Any:
    """Return the content as plain Python values. ConfigError, one line that begins with `name`."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # Serve's parser knows no later one: there `on` is true
    try:
        with warnings.catch_warnings():
            # That parser takes such a number for text.
            warnings.simplefilter("error", MantissaNoDotYAML1_1Warning)
            return yaml.load(text)
    except MantissaNoDotYAML1_1Warning as error:
        line = error.node.start_mark.line + 1
        raise ConfigError(
            f"{name}, line {line}: write a dot into a number with an exponent, as in 1.0e-5"
        ) from None
    except (YAMLError, ValueError) as error:
        raise ConfigError(f"{name}: {' '.join(str(error).split())}") from None


def applications_of(config: Any, name: str) -> list[dict[str, Any]]:
    """Return the Onepass applications of a parsed file; ConfigError if there is none."""
    listed = config.get("applications") if isinstance(config, dict) else None
    ours = [one for one in listed or [] if is_ours(one)]
    if not ours:
        raise ConfigError(f"{name}: no application has import_path: {IMPORT_PATH}")
    return ours


def is_ours(application: Any) -> bool:
    return isinstance(application, dict) and application.get("import_path") == IMPORT_PATH


def with_thresholds(text: str, corpus: str, correct: float, incorrect: float, name: str) -> str:
    """Return a file's text with a corpus's thresholds in the Composer's `user_config`.

    Everything else stays as it is, comments too. ConfigError if the file has no Onepass
    application, or several, of which one would have to be chosen.
    """
    parse(text, name)
    yaml = layout_of(text)
    config = yaml.load(text)
    applications = applications_of(config, name)
    if len(applications) > 1:
        raise ConfigError(f"{name}: holds several Onepass applications, and one is needed")
    thresholds = {
        "correct_threshold": plain_number(correct),
        "incorrect_threshold": plain_number(incorrect),
    }
    change = {"user_config": {"corpora": {safe_key(corpus): {"corrective": thresholds}}}}
    lay_over(composer_of(applications[0]), change)
    changed = io.StringIO()
    yaml.dump(config, changed)
    return changed.getvalue()


def layout_of(text: str) -> YAML:
    """Return a parser that writes what it has read with the text's own indentation."""
    _, indent, offset = load_yaml_guess_indent(text)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = WIDEST
    yaml.indent(mapping=2, sequence=indent or 2, offset=offset or 0)
    return yaml


def plain_number(value: float) -> Any:
    """Return a number that is written without an exponent: Serve's parser takes 1e-05 for text."""
    return YAML().load(f"{Decimal(repr(value)):f}")


def safe_key(key: str) -> str:
    """Return a key that stays text to Serve's parser, for which a bare `on` is true."""
    try:
        is_text = parse(key, "key") == key
    except ConfigError:
        is_text = False
    return key if is_text else DoubleQuotedScalarString(key)


def composer_of(application: Any) -> Any:
    """Return the Composer's entry, added where there is none."""
    if not application.get("deployments"):
        put(application, "deployments", CommentedSeq())
    deployments = application["deployments"]
    for deployment in deployments:
        if deployment.get("name") == COMPOSER:
            return deployment
    trailing = cut_trailing(deployments)
    deployments.append(CommentedMap(name=COMPOSER))
    add_trailing(deployments, trailing)
    return deployments[-1]


def lay_over(node: CommentedMap, changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(node.get(key), CommentedMap):
            lay_over(node[key], value)
        else:
            put(node, key, nested(value))


def nested(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return CommentedMap({key: nested(item) for key, item in value.items()})


def put(node: CommentedMap, key: str, value: Any) -> None:
    """Set a key. What stands behind the last one, before the next part of the file, stays last."""
    if key in node:
        node[key] = value
        return
    trailing = cut_trailing(node)
    node[key] = value
    add_trailing(node, trailing)


def cut_trailing(node: CommentedMap | CommentedSeq) -> CommentToken | None:
    """Take off the blank lines and comments that follow the last line of a part.

    The parser keeps them with that line's own comment, as one token of its last key.
    """
    holder, key, slot = last_line(node)
    token = (holder.ca.items.get(key) or EMPTY)[slot] if key is not None else None
    if token is None:
        return None
    own, _, rest = token.value.partition("\n")
    if not rest:
        return None
    token.value = f"{own}\n"
    if not own:
        holder.ca.items[key][slot] = None
    return CommentToken(f"\n{rest}", token.start_mark)


def add_trailing(node: CommentedMap | CommentedSeq, token: CommentToken | None) -> None:
    holder, key, slot = last_line(node)
    if token is not None:
        comments = list(EMPTY)
        comments[slot] = token
        holder.ca.items[key] = comments


def last_line(node: CommentedMap | CommentedSeq) -> tuple[Any, Any, int]:
    """Return which part holds the last line, under which key, and which slot its comment has."""
    if isinstance(node, CommentedMap):
        key, slot = next(reversed(node), None), MAPPING_SLOT
    else:
        key, slot = len(node) - 1 if node else None, SEQUENCE_SLOT
    value = None if key is None else node[key]
    if isinstance(value, CommentedMap | CommentedSeq) and value and not value.fa.flow_style():
        return last_line(value)
    return node, key, slot
