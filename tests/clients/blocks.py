"""The blocks of docs/clients.md: what they are called, and which group of clients runs them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.docs.pages import ROOT, blocks_in, section

PAGE = (ROOT / "docs" / "clients.md").read_text()
# Each section's group, as scripts/clients names it.
GROUPS = {
    "Cohere": "sdks",
    "OpenAI": "sdks",
    "LiteLLM": "litellm",
    "LangChain": "frameworks",
    "LlamaIndex": "frameworks",
    "Haystack": "frameworks",
}


# What a block may leave: documents and scores, vectors of documents or of the question.
RESULTS = ("ranked", "logits", "vectors", "vector")


@dataclass(frozen=True, slots=True)
class Block:
    group: str
    text: str

    def with_(self, old: str, new: str) -> Block:
        """Return the block with one thing said otherwise."""
        assert self.text.count(old) == 1
        return replace(self, text=self.text.replace(old, new))


def code(text: str) -> list[str]:
    return [block.text for block in blocks_in(text, "python")]


SETUP, *_ = code(PAGE)
# By section and place in it: "Cohere 1".
BLOCKS = {
    f"{name} {number}": Block(group, text)
    for name, group in GROUPS.items()
    for number, text in enumerate(code(section(PAGE, name)), 1)
}


def leaving(name: str) -> list[str]:
    """Return what those blocks are called that leave `name`."""
    return [called for called, block in BLOCKS.items() if f"\n{name} = " in block.text]
