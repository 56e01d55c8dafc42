"""Token ids equal to the reference, whatever the text."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from deployments.inference.errors import ModelError
from deployments.inference.tokens import EncodedPair, PairTokenizer, repair

QUERY = "people in the old city"
TEXTS = [
    "berlin",
    "the museum of the new city in berlin",
    "",
    "river " * 40,
    "unseen words spelt out",
    "the " * 3,
]


def reference(path: Path, max_tokens: int) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, strategy="only_second")
    tokenizer.encode_special_tokens = True
    return tokenizer


def ids(pairs: list[EncodedPair]) -> list[list[int]]:
    return [pair.ids.tolist() for pair in pairs]


def test_a_pair_is_framed_by_special_tokens_and_segments(tokenizer_path: Path) -> None:
    (pair,) = PairTokenizer(tokenizer_path, 64).encode_pairs("old city", ["new berlin"])
    assert pair.ids.tolist() == [2, 10, 8, 3, 11, 5, 3]
    assert pair.type_ids.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert (pair.length, pair.truncated) == (7, False)


def test_pairs_equal_the_reference_tokenizer(tokenizer_path: Path) -> None:
    tokenizer, expected = PairTokenizer(tokenizer_path, 32), reference(tokenizer_path, 32)
    for text, pair in zip(TEXTS, tokenizer.encode_pairs(QUERY, TEXTS), strict=True):
        encoding = expected.encode(QUERY, text)
        assert pair.ids.tolist() == encoding.ids
        assert pair.type_ids.tolist() == encoding.type_ids
        assert pair.truncated == bool(encoding.overflowing)


def test_single_texts_equal_the_reference_tokenizer(tokenizer_path: Path) -> None:
    tokenizer, expected = (
        PairTokenizer(tokenizer_path, 32),
        Tokenizer.from_file(str(tokenizer_path)),
    )
    expected.no_padding()
    expected.enable_truncation(32)
    assert ids(tokenizer.encode_texts(TEXTS)) == [expected.encode(text).ids for text in TEXTS]


def test_roberta_style_frames_follow_the_tokenizers_own_post_processor(
    tokenizer_path: Path,
) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    tokenizer.post_processor = processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(tokenizer_path))
    (pair,) = PairTokenizer(tokenizer_path, 64).encode_pairs("old city", ["new berlin"])
    assert pair.ids.tolist() == [2, 10, 8, 3, 3, 11, 5, 3]
    assert pair.type_ids.tolist() == [0] * 8


def test_a_tokenizer_without_special_tokens_joins_query_and_text(tokenizer_path: Path) -> None:
    content = json.loads(tokenizer_path.read_text())
    tokenizer_path.write_text(json.dumps({**content, "post_processor": None}))
    (pair,) = PairTokenizer(tokenizer_path, 64).encode_pairs("old city", ["new berlin"])
    assert pair.ids.tolist() == [10, 8, 11, 5]


def test_a_tokenizer_that_puts_the_text_first_is_refused(tokenizer_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$B [SEP] $A", special_tokens=[("[SEP]", 3)]
    )
    tokenizer.save(str(tokenizer_path))
    with pytest.raises(ModelError, match="does not put the text after the query"):
        PairTokenizer(tokenizer_path, 64)


def test_the_configured_window_applies_and_the_files_own_is_logged(
    tokenizer_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        tokenizer = PairTokenizer(tokenizer_path, 64)
    assert "truncates to 12 tokens; the configured 64 apply" in caplog.text
    (pair,) = tokenizer.encode_pairs("city", ["river " * 100])
    assert (pair.length, pair.truncated) == (64, True)


def test_the_query_is_capped_to_half_the_window(tokenizer_path: Path) -> None:
    (pair,) = PairTokenizer(tokenizer_path, 16).encode_pairs("city " * 30, ["river " * 30])
    assert pair.ids.tolist() == [2, *[8] * 8, 3, *[9] * 5, 3]
    assert pair.truncated


def test_a_short_text_is_truncated_if_its_query_is(tokenizer_path: Path) -> None:
    (pair,) = PairTokenizer(tokenizer_path, 16).encode_pairs("city " * 9, ["river"])
    assert (pair.length, pair.truncated) == (12, True)


def test_text_beyond_sixteen_characters_a_token_is_not_looked_at(tokenizer_path: Path) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64)
    assert tokenizer.max_characters == 1024
    exact, longer = " " * 1019 + "river", " " * 1019 + "river city"
    pairs = tokenizer.encode_pairs("city", [exact, longer])
    assert ids(pairs) == [[2, 8, 3, 9, 3]] * 2
    assert [pair.truncated for pair in pairs] == [False, True]


def test_special_tokens_written_in_a_text_are_ordinary_text(tokenizer_path: Path) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64)
    (pair,) = tokenizer.encode_pairs("city [SEP] [CLS]", ["[SEP] river [PAD]"])
    assert pair.ids.tolist().count(3) == 2
    assert pair.ids.tolist().count(2) == 1
    assert 0 not in pair.ids.tolist()


@pytest.mark.parametrize(
    "text",
    ["a\ud800b", "\udfff", "\U0001f600\U0001f600", "漢字かな", "\x00\x01\x7f", "\u200b\ufeff"],
)
def test_no_text_disturbs_its_neighbours(tokenizer_path: Path, text: str) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64)
    pairs = tokenizer.encode_pairs("city", ["river", text, "berlin"])
    assert [ids(pairs)[0], ids(pairs)[2]] == [[2, 8, 3, 9, 3], [2, 8, 3, 5, 3]]
    assert tokenizer.encode_pairs(text, ["river"])[0].ids.tolist()[-2:] == [9, 3]


def test_surrogates_that_form_a_pair_are_joined_and_lone_ones_replaced() -> None:
    assert repair("\ud83d\ude00") == "\U0001f600"
    assert repair("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert repair("plain \U0001f600") == "plain \U0001f600"


def test_padding_fills_to_the_longest_with_the_pad_id(tokenizer_path: Path) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64)
    feeds = tokenizer.pad(tokenizer.encode_pairs("city", ["river", ""]))
    assert {name: values.tolist() for name, values in feeds.items()} == {
        "input_ids": [[2, 8, 3, 9, 3], [2, 8, 3, 3, 0]],
        "attention_mask": [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]],
        "token_type_ids": [[0, 0, 0, 1, 1], [0, 0, 0, 1, 0]],
    }
    assert {values.dtype for values in feeds.values()} == {np.dtype(np.int64)}


def test_the_pad_id_is_the_one_the_file_pads_with(tokenizer_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    tokenizer.enable_padding(pad_id=4, pad_token="[MASK]")
    tokenizer.save(str(tokenizer_path))
    assert PairTokenizer(tokenizer_path, 64).pad_id == 4


def test_sixteen_threads_get_what_one_would(tokenizer_path: Path) -> None:
    windows = [PairTokenizer(tokenizer_path, size) for size in (12, 64)]
    jobs = [(windows[n % 2], f"city {n}", [f"river {n} " * n, "museum " * n]) for n in range(64)]

    def encode(job: tuple[PairTokenizer, str, list[str]]) -> list[list[int]]:
        return ids(job[0].encode_pairs(job[1], job[2]))

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(encode, jobs)) == [encode(job) for job in jobs]


def test_no_documents_give_no_pairs(tokenizer_path: Path) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64)
    assert tokenizer.encode_pairs("city", []) == []
    assert tokenizer.encode_texts([]) == []


def test_a_window_too_small_for_a_pair_is_refused(tokenizer_path: Path) -> None:
    with pytest.raises(ModelError, match="at least 8, not 7"):
        PairTokenizer(tokenizer_path, 7)


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json as a tokenizer"):
        PairTokenizer(tmp_path / "tokenizer.json", 64)
