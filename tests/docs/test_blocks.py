"""What our pages tell readers to send and to configure is valid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.api.native import FeedbackRequest, PutDocuments, SearchRequest
from deployments.api.wire import Wire
from deployments.cli.checking import check_application, check_text
from deployments.cli.settings_file import COMPOSER, IMPORT_PATH
from deployments.config import AppArgs, with_user_config
from deployments.options import ConfigError
from deployments.planning import plan_search, resolve
from deployments.search_options import SearchArgs
from tests.docs.example import ALL_PARTS, PAGE
from tests.docs.pages import PAGES, ROOT, Block, blocks, blocks_in, section

CURL = re.compile(r"\S*(/v1/\S+).*?-d '(.*?)'", re.DOTALL)
BODIES: Mapping[str, type[Wire]] = {
    "/v1/search": SearchRequest,
    "/v1/feedback": FeedbackRequest,
    "/v1/corpora/default/documents": PutDocuments,
}
SERVICE = {"base_url": "http://localhost", "model": "m"}
WITH_ALL_PARTS = AppArgs.model_validate({"chat": SERVICE, "web_search": {"base_url": "http://a"}})
YAML = blocks("yaml")
COOKBOOK = list(blocks_in(section(PAGE, "Cookbook"), "json"))
LINK = re.compile(r"\]\((?!http)([^)#]+)[^)]*\)")


def shipped_defaults() -> SearchArgs:
    """What a search does where serve_config.yaml is used as it is, with all parts there."""
    (application,) = yaml.safe_load((ROOT / "serve_config.yaml").read_text())["applications"]
    (composer,) = [one for one in application["deployments"] if one["name"] == COMPOSER]
    return with_user_config(WITH_ALL_PARTS, composer["user_config"])


def plan(body: Mapping[str, Any]) -> None:
    given = SearchRequest.model_validate(body).given()
    plan_search(resolve(shipped_defaults(), given, ALL_PARTS), given)


@pytest.mark.parametrize("block", COOKBOOK, ids=lambda block: block.text[:60])
def test_a_request_of_the_cookbook_can_be_run(block: Block) -> None:
    plan(json.loads(block.text))


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.page)
def test_every_block_of_json_parses_and_is_a_search_if_it_asks(block: Block) -> None:
    body = json.loads(block.text)
    if "query" in body and not body.keys() & {"documents", "texts", "hits"}:
        plan(body)


def curls() -> Iterator[tuple[str, str]]:
    for block in blocks("bash"):
        for found in CURL.finditer(block.text):
            yield found[1], found[2]


@pytest.mark.parametrize(("route", "body"), list(curls()))
def test_what_a_curl_line_sends_is_valid(route: str, body: str) -> None:
    BODIES[route].model_validate(json.loads(body))


@pytest.mark.parametrize("block", YAML, ids=lambda block: f"{block.page}: {block.text[:40]}")
def test_a_block_of_yaml_is_a_sound_configuration(block: Block) -> None:
    check_yaml(block)


def check_yaml(block: Block) -> None:
    """A whole file, an application, its `args`, its Composer's `user_config`, or what stands
    below one of these."""
    content = yaml.safe_load(block.text)
    keys = content.keys()
    if "applications" in keys:
        check_text(block.text, block.page)
    elif keys <= {"args", "deployments"}:
        check_application({"import_path": IMPORT_PATH, **content})
    elif keys <= AppArgs.model_fields.keys():
        AppArgs.model_validate(content)
    else:
        with_user_config(WITH_ALL_PARTS, content.get("user_config", content))


@pytest.mark.parametrize("wrong", ["top_kk: 3", "scorer: {dialect: coherre}", "args: {top_k: 3}"])
def test_a_wrong_block_of_yaml_would_be_found(wrong: str) -> None:
    with pytest.raises(ConfigError, match="configuration: "):
        check_yaml(Block("page", "yaml", wrong))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_our_files_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
