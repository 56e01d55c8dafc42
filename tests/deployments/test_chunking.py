"""Chunks by a tokenizer for which each of these words, and each full stop, is one token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.chunking import VIEW_CHARACTERS, Chunker
from deployments.config import ChunkingArgs
from tests.deployments.inference.frames import bert

ARGS = ChunkingArgs(max_tokens=16, overlap_tokens=0)
SENTENCE = "The old museum of Berlin."


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, whose window is 128 tokens."""
    folder = tmp_path_factory.mktemp("model")
    bert().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 128}))
    return folder


def test_a_chunk_holds_whole_sentences_up_to_its_size_in_tokens(folder: Path) -> None:
    chunks = Chunker(ARGS, folder).chunks(" ".join([SENTENCE] * 5))
    assert chunks == [f"{SENTENCE} {SENTENCE}", f"{SENTENCE} {SENTENCE}", SENTENCE]


def test_a_chunk_begins_with_the_end_of_the_one_before(folder: Path) -> None:
    args = ChunkingArgs(max_tokens=16, overlap_tokens=6)
    last = "The people of the new city in Berlin."
    chunks = Chunker(args, folder).chunks(f"New city of the old people. Old river. {last}")
    assert chunks == ["New city of the old people. Old river.", f"Old river. {last}"]


def test_a_paragraph_is_kept_whole_before_a_sentence_is(folder: Path) -> None:
    text = f"{SENTENCE} {SENTENCE}\n\n{SENTENCE}"
    assert Chunker(ARGS, folder).chunks(f"{SENTENCE}\n\n{text}") == [
        SENTENCE,
        f"{SENTENCE} {SENTENCE}",
        SENTENCE,
    ]


def test_a_section_is_kept_whole_before_a_paragraph_is(folder: Path) -> None:
    sections = [
        f"{SENTENCE}\n\nThe city.",
        "## river\n\nOld river.\n\nNew river.",
        "## people\n\nThe people of Berlin.",
    ]
    assert Chunker(ARGS, folder).chunks("\n\n".join(sections)) == sections


def test_small_sections_share_a_chunk(folder: Path) -> None:
    text = "## a\n\nOld.\n\n## b\n\nNew."
    assert Chunker(ARGS, folder).chunks(text) == [text]


def test_a_long_title_takes_of_its_chunks_so_that_both_fit_the_window(folder: Path) -> None:
    chunker = Chunker(ChunkingArgs(max_tokens=64, overlap_tokens=0), folder)
    # 128 tokens without 64 for the query and 3 special ones.
    assert chunker.size_beside("") == 48
    assert chunker.size_beside("old city") == 48
    assert chunker.size_beside("old " * 20) == 32
    assert chunker.size_beside("old " * 1000) == 16
    text = " ".join([SENTENCE] * 16)
    assert len(chunker.chunks(text)) == 2
    assert len(chunker.chunks(text, "old " * 1000)) == 8


def test_a_window_narrower_than_the_models_own_counts(folder: Path) -> None:
    args = ChunkingArgs(max_tokens=64, overlap_tokens=0)
    assert Chunker(args, folder, window=100).size_beside("") == 32


def test_without_a_tokenizer_a_token_is_four_characters() -> None:
    chunks = Chunker(ARGS, None).chunks(f"{SENTENCE} {SENTENCE} {SENTENCE}", "old " * 1000)
    assert chunks == [f"{SENTENCE} {SENTENCE}", SENTENCE]


def test_a_long_text_is_cut_as_if_it_were_seen_at_once(folder: Path) -> None:
    chunker = Chunker(ChunkingArgs(max_tokens=16, overlap_tokens=6), folder)
    text = "\n\n".join(f"{SENTENCE} New city {'of people ' * (n % 7)}." for n in range(200))
    assert len(text) > 10 * 16 * VIEW_CHARACTERS
    assert chunker.chunks(text) == chunker.splitter(16).chunks(text)


def test_a_word_without_an_end_is_cut_all_the_same() -> None:
    chunks = Chunker(ARGS, None).chunks("a" * 10_000)
    assert "".join(chunks) == "a" * 10_000
    assert max(map(len, chunks)) <= 64


@given(st.text("ab .\n#`漢é😀\r\t-\u200b\u2028", max_size=2_000))
def test_chunks_are_parts_of_the_text_and_together_all_of_it(folder: Path, text: str) -> None:
    place = 0
    for chunk in Chunker(ARGS, folder).chunks(text):
        assert chunk == chunk.strip() != ""
        between, found, rest = text[place:].partition(chunk)
        assert not between.strip()
        assert found
        place = len(text) - len(rest)
    assert not text[place:].strip()


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_white_space_has_no_chunks(folder: Path, text: str) -> None:
    assert Chunker(ARGS, folder).chunks(text) == []


def test_the_recipe_names_all_that_chunks_depend_on(folder: Path) -> None:
    recipes = {
        chunker.recipe
        for chunker in (
            Chunker(ARGS, None),
            Chunker(ARGS, folder),
            Chunker(ARGS, folder, window=100),
            Chunker(ChunkingArgs(max_tokens=16, overlap_tokens=1), folder),
        )
    }
    assert len(recipes) == 4
    assert Chunker(ARGS, folder).recipe in recipes
