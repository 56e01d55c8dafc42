"""A Serve configuration file: read as Serve reads it, changed with comments and layout kept."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
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
    """Return the Onepass applications of a parsed file.

    ConfigError if there is none, or if one's `deployments` is not a list of objects.
    """
    listed = config.get("applications") if isinstance(config, dict) else None
    ours = [one for one in listed if is_ours(one)] if isinstance(listed, list) else []
    if not ours:
        raise ConfigError(f"{name}: no application has import_path: {IMPORT_PATH}")
    for application in ours:
        if not is_list_of_objects(application.get("deployments")):
            raise ConfigError(f"{name}: deployments must be a list of objects, each with a name")
    return ours


def is_ours(application: Any) -> bool:
    return isinstance(application, dict) and application.get("import_path") == IMPORT_PATH


def is_list_of_objects(value: Any) -> bool:
    """Whether a part of the file is one; a part that is left empty holds none."""
    return value is None or (
        isinstance(value, list) and all(isinstance(item, dict) for item in value)
    )


def with_thresholds(text: str, corpus: str, correct: float, incorrect: float, name: str) -> str:
    """Return a file's text with a corpus's thresholds in the Composer's `user_config`.

    Everything else stays as it is, comments too. ConfigError if the file has no Onepass
    application, or several, of which one would have to be chosen; and if something else would
    change, as where the thresholds stand in what an anchor shares.
    """
    before = parse(text, name)
    yaml = layout_of(text)
    config = yaml.load(text)
    applications = applications_of(config, name)
    if len(applications) > 1:
        raise ConfigError(f"{name}: holds several Onepass applications, and one is needed")
    wanted = {"correct_threshold": correct, "incorrect_threshold": incorrect}
    written = {key: plain_number(value) for key, value in wanted.items()}
    lay_over(composer_of(applications[0]), changes_for(safe_key(corpus), written))
    changed = io.StringIO()
    yaml.dump(config, changed)
    if parse(changed.getvalue(), name) != intended(before, changes_for(corpus, wanted)):
        by_hand = ", ".join(f"{key}: {without_exponent(value)}" for key, value in wanted.items())
        raise ConfigError(
            f"{name}: other settings would change too, as where an anchor is shared; "
            f"write by hand into the corpus's corrective: {by_hand}"
        )
    return changed.getvalue()


def changes_for(corpus: str, thresholds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be laid over the Composer's entry."""
    return {"user_config": {"corpora": {corpus: {"corrective": thresholds}}}}


def intended(config: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parsed file with the change in its one Composer and nowhere else."""
    applications = [
        {**one, "deployments": with_composer(one.get("deployments") or [], change)}
        if is_ours(one)
        else one
        for one in config["applications"]
    ]
    return {**config, "applications": applications}


def with_composer(deployments: list[dict[str, Any]], change: Mapping[str, Any]) -> list[Any]:
    place = place_of_composer(deployments)
    old = deployments[place] if place < len(deployments) else {"name": COMPOSER}
    return [*deployments[:place], laid_over(old, change), *deployments[place + 1 :]]


def laid_over(old: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with the changes, so that what shares `old` keeps it."""
    kept = old if isinstance(old, Mapping) else {}
    return {
        **kept,
        **{
            key: laid_over(kept.get(key), value) if isinstance(value, Mapping) else value
            for key, value in changes.items()
        },
    }


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
    return YAML().load(without_exponent(value))


def without_exponent(value: float) -> str:
    return f"{Decimal(repr(value)):f}"


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
    place = place_of_composer(deployments)
    if place == len(deployments):
        trailing = cut_trailing(deployments)
        deployments.append(CommentedMap(name=COMPOSER))
        add_trailing(deployments, trailing)
    return deployments[place]


def place_of_composer(deployments: Sequence[Mapping[str, Any]]) -> int:
    """Return the place of the first Composer, the end where there is none."""
    names = [deployment.get("name") for deployment in deployments]
    return names.index(COMPOSER) if COMPOSER in names else len(names)


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
