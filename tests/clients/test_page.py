"""Nothing on docs/clients.md escapes the tests that run its blocks."""

from __future__ import annotations

from tests.clients.blocks import BLOCKS, GROUPS, PAGE, RESULTS, code, leaving
from tests.docs.pages import ROOT, section


def test_every_block_leaves_one_thing_that_is_checked() -> None:
    assert sorted(called for name in RESULTS for called in leaving(name)) == sorted(BLOCKS)


def test_every_block_but_the_first_belongs_to_a_group_of_clients() -> None:
    headings = [line[3:] for line in PAGE.splitlines() if line.startswith("## ")]
    assert [name for name in headings if code(section(PAGE, name))] == list(GROUPS)
    assert len(code(PAGE)) == 1 + len(BLOCKS)


def test_the_script_installs_every_group() -> None:
    script = (ROOT / "scripts" / "clients").read_text()
    assert [group for group in set(GROUPS.values()) if f"[{group}]=" not in script] == []
