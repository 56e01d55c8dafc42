"""Who waits where, and who shares a batch with whom."""

from __future__ import annotations

import random

import pytest

from deployments.inference.line import MOST_PASSED, Line, block_of_first
from deployments.inference.score_cache import Key
from deployments.inference.truncation import Limits
from deployments.inference.work import Work

WINDOW = 128


def work(length: int, due: int = 0, number: int = 0) -> Work:
    key = Key("t", Limits("right", 256, 512), f"{due} {number} {length}")
    return Work(key, "", length, due, number, length=length)


def line_of(*works: Work) -> Line:
    line = Line(max_padding=12, window=WINDOW)
    for one in works:
        line.add(one)
    return line


def lengths(works: list[Work]) -> list[int]:
    return [work.length for work in works]


def test_a_batch_holds_neighbours_in_length_within_the_budget() -> None:
    line = line_of(*(work(length) for length in (10, 90, 12, 50, 88, 49)))
    assert [lengths(line.take(180)) for _ in range(3)] == [[90, 88], [50, 49], [12, 10]]
    assert (line.take(200), len(line), line.tokens) == ([], 0, 0)


def test_a_pair_longer_than_the_budget_goes_alone() -> None:
    line = line_of(work(300), work(5))
    assert [lengths(line.take(100)) for _ in range(2)] == [[300], [5]]


def test_whoever_is_due_first_is_in_the_next_batch_with_whoever_is_as_long() -> None:
    line = line_of(work(50, due=9), work(10, due=1), work(9, due=9, number=1), work(51, due=2))
    assert lengths(line.take(40)) == [10, 9]
    assert lengths(line.take(120)) == [51, 50]


def test_equal_requests_go_first_come_first_served() -> None:
    line = line_of(work(8, due=5, number=2), work(9, due=5, number=1))
    assert [lengths(line.take(9)) for _ in range(2)] == [[9], [8]]


def test_what_is_removed_is_in_no_batch() -> None:
    gone = work(20)
    line = line_of(work(21), gone, work(19))
    line.remove(gone)
    assert (lengths(line.take(100)), line.tokens) == ([21, 19], 0)


def test_only_the_window_is_searched_for_neighbours() -> None:
    front = [work(100 + number, number=number) for number in range(WINDOW)]
    line = line_of(*front, work(100, number=WINDOW))
    assert lengths(line.take(200)) == [100]
    assert 100 in lengths(line.take(202))


def test_no_pair_is_passed_by_more_than_the_bound_and_a_batch() -> None:
    """The first in line are of all lengths, and short pairs that fit each come without end."""
    budget, most_in_a_batch = 100, 20
    source = random.Random(5)
    front = [work(source.randint(5, 100), number=0) for _ in range(60)]
    line = line_of(*front)
    before: dict[int, int] = {id(one): 0 for one in front}
    waiting = {id(one) for one in front}
    for number in range(1, 2000):
        line.add(work(source.randint(5, 100), due=1, number=number))
        batch = line.take(budget)
        passing = sum(id(one) not in before for one in batch)
        waiting -= {id(one) for one in batch}
        for one in waiting:
            before[one] += passing
    assert not waiting
    assert 0 < max(before.values()) <= MOST_PASSED + most_in_a_batch


def test_a_pair_that_was_passed_often_enough_lets_no_other_pass() -> None:
    patient = work(50, number=1)
    patient.passed = MOST_PASSED
    line = line_of(work(10, number=0), patient, work(10, number=2), work(50, number=3))
    assert [lengths(line.take(100)) for _ in range(4)] == [[10], [50], [10], [50]]


@pytest.mark.parametrize(
    ("of", "budget", "block"),
    [
        ([5], 1, [0]),
        ([5, 5, 5, 5], 10, [0, 1]),
        ([1, 9, 9, 1], 18, [0, 3]),
        ([7, 8, 1], 16, [1, 0]),
        ([7, 8, 1], 24, [1, 0]),
        ([7, 8, 6], 24, [1, 0, 2]),
    ],
)
def test_blocks_are_cut_from_the_longest_on(of: list[int], budget: int, block: list[int]) -> None:
    assert block_of_first(of, budget, 4) == block
