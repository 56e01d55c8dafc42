"""Token ids equal to the reference, whatever the text."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from deployments.inference.errors import ModelError
from deployments.inference.tokens import EncodedPair, PairTokenizer
from deployments.inference.truncation import AS_CONFIGURED, Side, Truncation
from deployments.inference.words import Ids
from tests.deployments.inference.frames import roberta

TEXTS = [
    "berlin",
    "the museum of the new city in berlin",
    "",
    "river " * 40,
    "unseen words spelt out",
    "the " * 3,
]


def ids(pairs: list[EncodedPair]) -> list[list[int]]:
    return [pair.ids.tolist() for pair in pairs]


def test_a_pair_is_framed_by_special_tokens_and_segments(tokenizer_path: Path) -> None:
    (pair,) = PairTokenizer(tokenizer_path, 64).encode_pairs("old city", ["new berlin"])
    assert pair.ids.tolist() == [2, 10, 8, 3, 11, 5, 3]
    assert pair.type_ids.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert (pair.length, pair.truncated) == (7, False)


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


@pytest.mark.parametrize(
    ("truncation", "length", "truncated"),
    [
        (AS_CONFIGURED, 64, True),
        (Truncation(max_document_tokens=1), 5, True),
        (Truncation(max_document_tokens=20), 24, True),
        (Truncation(max_document_tokens=99), 64, True),
        (Truncation(max_document_tokens=10**30), 64, True),
    ],
)
def test_a_document_has_at_most_the_tokens_asked_for(
    tokenizer_path: Path, truncation: Truncation, length: int, truncated: bool
) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64)
    (pair,) = tokenizer.encode_pairs("city", ["river " * 80], truncation)
    assert (pair.length, pair.truncated) == (length, truncated)
    (short,) = tokenizer.encode_pairs("city", ["river"], truncation)
    assert (short.length, short.truncated) == (5, False)


@pytest.mark.parametrize(("asked", "kept"), [(None, 8), (1, 1), (3, 3), (9, 8), (10**30, 8)])
def test_a_query_has_at_most_the_tokens_asked_for(
    tokenizer_path: Path, asked: int | None, kept: int
) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 16)
    truncation = Truncation(max_query_tokens=asked)
    (pair,) = tokenizer.encode_pairs("city " * 10, ["river"], truncation)
    assert pair.ids.tolist() == [2, *[8] * kept, 3, 9, 3]
    assert pair.truncated


def test_a_request_goes_before_the_models_own_settings(tokenizer_path: Path) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64, Truncation("left", 2, 1))

    def encode(truncation: Truncation) -> list[int]:
        return ids(tokenizer.encode_pairs("old city", ["the new river"], truncation))[0]

    assert encode(AS_CONFIGURED) == [2, 10, 3, 11, 9, 3]
    assert encode(Truncation(side="right")) == [2, 10, 3, 12, 11, 3]
    assert encode(Truncation(max_document_tokens=3)) == [2, 10, 3, 12, 11, 9, 3]
    assert encode(Truncation("right", 1, 2)) == [2, 10, 8, 3, 12, 3]


def test_from_the_left_a_query_keeps_its_beginning_and_a_document_its_end(
    tokenizer_path: Path,
) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 8)
    (pair,) = tokenizer.encode_pairs(
        "old city of the new", ["the river berlin"], Truncation("left")
    )
    assert pair.ids.tolist() == [2, 10, 8, 13, 12, 3, 5, 3]


def test_a_document_that_has_no_room_is_left_out_from_either_side(tmp_path: Path) -> None:
    roberta().save(str(tmp_path / "tokenizer.json"))
    tokenizer = PairTokenizer(tmp_path / "tokenizer.json", 8)
    sides: tuple[Side, ...] = ("right", "left")
    for side in sides:
        (pair,) = tokenizer.encode_pairs("city " * 9, ["river"], Truncation(side))
        assert (pair.ids[-3:].tolist(), pair.length, pair.truncated) == ([2, 2, 2], 8, True)


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


def test_from_the_left_the_end_of_a_long_text_is_looked_at(tokenizer_path: Path) -> None:
    tokenizer, from_left = PairTokenizer(tokenizer_path, 64), Truncation("left")
    exact, longer = "river" + " " * 1019, "city river" + " " * 1019
    pairs = tokenizer.encode_pairs("city", [exact, longer, "old " * 250_000 + "river"], from_left)
    assert ids(pairs) == [[2, 8, 3, 9, 3], [2, 8, 3, 9, 3], [2, 8, 3, *[10] * 59, 9, 3]]
    assert [pair.truncated for pair in pairs] == [False, True, True]


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


def test_sixteen_threads_with_different_limits_get_what_one_would(tokenizer_path: Path) -> None:
    windows = [PairTokenizer(tokenizer_path, size) for size in (12, 64)]
    sides: tuple[Side, ...] = ("right", "left")

    def encode(n: int) -> list[list[int]]:
        texts = [f"river {n} " * n, "museum " * n]
        truncation = Truncation(sides[n // 2 % 2], n % 7 or None, n % 5 or None)
        return ids(windows[n % 2].encode_pairs(f"the city {n}", texts, truncation))

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(encode, range(64))) == [encode(n) for n in range(64)]


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


def run_apart(code: str, path: Path) -> str:
    """Run code in a process of its own, where nothing has run before; return what it printed."""
    # From Python 3.12 on, every fork beside a thread gives a warning.
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), str(path)]
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_long_query_with_a_long_document_takes_little_memory(tokenizer_path: Path) -> None:
    grown = run_apart(
        """
        import resource, sys
        from pathlib import Path
        from deployments.inference.tokens import PairTokenizer

        tokenizer = PairTokenizer(Path(sys.argv[1]), 8192)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        (pair,) = tokenizer.encode_pairs("city river " * 4000, ["old museum " * 4000])
        assert (pair.length, pair.truncated) == (8192, True)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """,
        tokenizer_path,
    )
    assert int(grown) < 50 * 1024


def test_a_process_forked_after_use_encodes_as_its_parent_does(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    roberta().save(str(path))
    printed = run_apart(
        """
        import multiprocessing, os, sys
        from pathlib import Path
        from deployments.inference.tokens import PairTokenizer

        tokenizer = PairTokenizer(Path(sys.argv[1]), 64)

        def encode(text):
            return [pair.ids.tolist() for pair in tokenizer.encode_pairs("city", [text] * 100)]

        own = encode("the old river")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            forked = pool.map(encode, ["the old river", "the old museum"])
        print(os.environ["TOKENIZERS_PARALLELISM"], forked[0] == own, forked[1] == own)
        """,
        path,
    )
    assert printed.split() == ["false", "True", "False"]


def test_a_query_is_encoded_once_for_all_slices_of_a_request(
    tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = PairTokenizer(tokenizer_path, 64)
    encode, seen = tokenizer.encode_bare, list[str]()

    def noting(texts: Sequence[str]) -> list[Ids]:
        seen.extend(texts)
        return encode(texts)

    monkeypatch.setattr(tokenizer, "encode_bare", noting)
    assert ids(tokenizer.encode_pairs("city", ["river"])) == [[2, 8, 3, 9, 3]]
    assert ids(tokenizer.encode_pairs("city", ["berlin", "old"])) == [
        [2, 8, 3, 5, 3],
        [2, 8, 3, 10, 3],
    ]
    assert seen == ["city", "river", "berlin", "old"]
