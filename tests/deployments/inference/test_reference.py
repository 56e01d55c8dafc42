"""Every text is encoded as the tokenizers library itself encodes pairs, whatever the limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from deployments.inference.tokens import EncodedPair, PairTokenizer
from deployments.inference.truncation import Side, Truncation
from tests.deployments.inference.frames import FAMILIES

WINDOW = 64
FRAGMENTS = (
    *("[SEP]", "[CLS] ", "</s>", "<mask>", " <s>", "<pad>", "▁the", "##ing", "old city"),
    *("berlin", " museum", "the ", "don't", "a.b,c", " ", "  ", "\n", "\t", "\r\n", "\u3000"),
    *("\U0001f600", "👩\u200d🔬", "漢字", "かな", "é", "e\u0301", " \u0301", "İ", "ß", "ﬁ", "\xad"),
    *("\x00", "\x1c", "\x85", "\u200b", "\ufeff", "\ufffd"),
)
PIECES = st.sampled_from(FRAGMENTS) | st.text(st.characters(codec="utf-8"), max_size=12)
SHORT = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(FRAGMENTS)
HUGE = st.builds(lambda text, times: (text * times)[: 16 * WINDOW], PIECES, st.integers(1, 999))
TEXT = st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces)[: 16 * WINDOW]) | HUGE
SIDES: tuple[Side, ...] = ("right", "left")
LIMIT = st.none() | st.integers(1, WINDOW + 9)


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("families")
    return {name: saved(make(), folder / f"{name}.json") for name, make in FAMILIES.items()}


@pytest.fixture(scope="session")
def ours(paths: Mapping[str, Path]) -> dict[str, PairTokenizer]:
    return {name: PairTokenizer(path, WINDOW) for name, path in paths.items()}


@pytest.fixture(scope="session")
def theirs(paths: Mapping[str, Path]) -> dict[str, Tokenizer]:
    return {name: reference_tokenizer(path) for name, path in paths.items()}


def saved(tokenizer: Tokenizer, path: Path) -> Path:
    tokenizer.save(str(path))
    return path


def reference_tokenizer(path: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer


def reference(
    tokenizer: Tokenizer, query: str, text: str, truncation: Truncation, window: int
) -> tuple[list[int], list[int], bool]:
    """Cut by the library's own strategy: only the second sequence, from the side asked for."""
    tokenizer.no_truncation()
    frame = tokenizer.num_special_tokens_to_add(True)
    query_tokens = len(tokenizer.encode(query, add_special_tokens=False).ids)
    size = min(window, frame + query_tokens + (truncation.max_document_tokens or window))
    tokenizer.enable_truncation(size, strategy="only_second", direction=truncation.side or "right")
    encoding = tokenizer.encode(query, text)
    return encoding.ids, encoding.type_ids, bool(encoding.overflowing)


def plain(pair: EncodedPair) -> tuple[list[int], list[int], bool]:
    return pair.ids.tolist(), pair.type_ids.tolist(), pair.truncated


@pytest.mark.parametrize("family", FAMILIES)
@settings(deadline=None, max_examples=100)
@given(query=SHORT, text=TEXT, side=st.sampled_from(SIDES), limit=LIMIT)
def test_any_pair_equals_the_librarys_own(
    ours: Mapping[str, PairTokenizer],
    theirs: Mapping[str, Tokenizer],
    family: str,
    query: str,
    text: str,
    side: Side,
    limit: int | None,
) -> None:
    truncation = Truncation(side, limit)
    (pair,) = ours[family].encode_pairs(query, [text], truncation)
    assert plain(pair) == reference(theirs[family], query, text, truncation, WINDOW)


@pytest.mark.parametrize("family", FAMILIES)
@settings(deadline=None, max_examples=30)
@given(query=TEXT, texts=st.lists(TEXT, max_size=3), limit=LIMIT, side=st.sampled_from(SIDES))
def test_a_long_query_equals_what_the_library_cuts_it_to(
    ours: Mapping[str, PairTokenizer],
    theirs: Mapping[str, Tokenizer],
    family: str,
    query: str,
    texts: list[str],
    limit: int | None,
    side: Side,
) -> None:
    pairs = ours[family].encode_pairs(query, texts, Truncation(side, None, limit))
    tokenizer = theirs[family]
    tokenizer.no_truncation()
    cap = min(WINDOW // 2, limit or WINDOW)
    for text, pair in zip(texts, pairs, strict=True):
        first, second = (tokenizer.encode(one, add_special_tokens=False) for one in (query, text))
        first.truncate(cap)
        room = WINDOW - tokenizer.num_special_tokens_to_add(True) - len(first.ids)
        second.truncate(room, direction=side)
        encoding = tokenizer.post_process(first, second)
        truncated = bool(first.overflowing or second.overflowing)
        assert plain(pair) == (encoding.ids, encoding.type_ids, truncated)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("tokens", [511, 512, 513, 2000])
def test_pairs_around_and_far_beyond_the_window_equal_the_librarys_own(
    paths: Mapping[str, Path], family: str, side: Side, tokens: int
) -> None:
    tokenizer, expected = PairTokenizer(paths[family], 512), reference_tokenizer(paths[family])
    query, words = "people in berlin", [" city", " old", " river", " the"] * 500
    text = "".join(words[: tokens - len(expected.encode(query, "").ids)])
    assert len(expected.encode(query, text).ids) == tokens
    (pair,) = tokenizer.encode_pairs(query, [text], Truncation(side))
    assert plain(pair) == reference(expected, query, text, Truncation(side), 512)
    assert (pair.length, pair.truncated) == (min(tokens, 512), tokens > 512)
