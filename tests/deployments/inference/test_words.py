"""Remembered words give the ids that the whole text would have given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from deployments.inference.words import WordMemory, encode_whole, reads_words, repair
from tests.deployments.inference.frames import FAMILIES, bert

TEXTS = ["the old city", "", " \n", "city,river.the museum", "unseen the\tword", "a\x1cb 漢字"]


def test_words_are_remembered_apart_from_punctuation_and_whitespace() -> None:
    memory = WordMemory(bert())
    memory.encode(["the city, the\nriver"])
    assert sorted(memory.known) == [",", "city", "river", "the"]


def test_known_and_new_words_give_the_ids_of_the_whole_text() -> None:
    memory = WordMemory(bert())
    expected = [ids.tolist() for ids in encode_whole(bert(), TEXTS)]
    assert [ids.tolist() for ids in memory.encode(TEXTS)] == expected
    assert [ids.tolist() for ids in memory.encode(TEXTS)] == expected


def test_a_full_memory_is_left_for_a_new_one() -> None:
    memory = WordMemory(bert(), max_bytes=1000)
    memory.encode(["the city"])
    assert len(memory.known) == 2
    (ids,) = memory.encode(["the old river in berlin"])
    assert (memory.known, memory.used_bytes) == ({}, 0)
    assert ids.tolist() == encode_whole(bert(), ["the old river in berlin"])[0].tolist()


def test_threads_share_a_memory_that_is_left_again_and_again() -> None:
    memory, texts = WordMemory(bert(), max_bytes=3000), [f"river {n} old{n}" for n in range(400)]
    expected = [ids.tolist() for ids in encode_whole(bert(), texts)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: memory.encode([text])[0].tolist(), texts))
    assert found == expected


def test_only_bert_without_added_tokens_reads_word_by_word() -> None:
    assert {name for name, make in FAMILIES.items() if reads_words(make())} == {
        "bert",
        "cased_bert",
    }


def test_surrogates_that_form_a_pair_are_joined_and_lone_ones_replaced() -> None:
    assert repair("\ud83d\ude00") == "\U0001f600"
    assert repair("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert repair("plain \U0001f600") == "plain \U0001f600"
