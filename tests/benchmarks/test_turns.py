from __future__ import annotations

import contextlib
import itertools

import pytest

from benchmarks.turns import Contender, Measured, Turn, check, run_rounds, take_turn


def noting(name: str, asked: list[tuple[str, int]]) -> Contender:
    """A contender that notes who was asked what."""
    return Contender(
        name, lambda: contextlib.nullcontext(lambda number: asked.append((name, number)))
    )


def test_figures_are_medians_of_the_turns() -> None:
    turns = [
        Turn(10.0, [0.001, 0.002, 0.003]),
        Turn(30.0, [0.004, 0.004, 0.004]),
        Turn(20.0, [0.009, 0.009, 0.009, 0.009]),
    ]
    measured = Measured(turns)
    assert measured.requests_per_s == 20.0
    assert measured.p50_ms == 4.0
    assert measured.p95_ms == 4.0


def test_each_client_asks_once_at_least_and_no_number_twice() -> None:
    asked: list[tuple[str, int]] = []
    turn = take_turn(noting("one", asked), 3, 0.0, itertools.count())
    assert len(turn.seconds) == 3
    assert sorted(asked) == [("one", 0), ("one", 1), ("one", 2)]


def test_a_round_begins_with_another_contender_each_time_and_the_first_only_warms_up() -> None:
    asked: list[tuple[str, int]] = []
    contenders = [noting("one", asked), noting("two", asked)]
    results = run_rounds(contenders, [1], 2, 0.0, lambda line: None)
    assert [name for name, _ in asked] == ["one", "two", "two", "one", "one", "two"]
    assert [len(results[1][name].turns) for name in ("one", "two")] == [2, 2]


def test_an_answer_with_too_few_scores_is_an_error() -> None:
    answer = b'{"results": [{"relevance_score": 1.0}]}'
    check(answer, 1)
    with pytest.raises(RuntimeError, match="without 2 scores"):
        check(answer, 2)
