"""The padded shapes that batches run in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deployments.inference.shapes import (
    buckets,
    coarsen,
    fit_bucket,
    fit_exactly,
    ladder,
    length_buckets,
)


def test_on_a_cpu_a_batch_runs_in_the_shape_it_has() -> None:
    assert fit_exactly(7, 143, 512) == (7, 143)


def test_a_ladder_halves_the_window_and_keeps_the_batch_full() -> None:
    assert ladder(512, 512) == [(1, 512), (2, 256), (4, 128), (8, 64), (16, 32), (32, 16)]
    assert ladder(100, 512) == [(5, 100), (10, 50), (20, 25)]
    assert ladder(2048, 512)[:3] == [(1, 2048), (1, 1024), (1, 512)]
    assert ladder(8, 512) == [(64, 8)]


def test_rounding_up_keeps_the_leading_binary_digits() -> None:
    assert [coarsen(value, bits=3) for value in range(1, 18)] == [
        *(1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 12, 14, 14, 16, 16, 20)
    ]


def test_lengths_grow_by_an_eighth_at_most_and_end_with_the_window() -> None:
    lengths = [length for _, length in length_buckets(500)]
    assert lengths[:17] == [*range(8, 129, 8), 144]
    assert lengths[-4:] == [416, 448, 480, 500]
    assert len(lengths) == 32


def test_a_batch_is_padded_to_the_next_bucket() -> None:
    assert fit_bucket(1, 1, 512) == (1, 8)
    assert fit_bucket(9, 143, 512) == (10, 144)
    assert fit_bucket(115, 142, 512) == (128, 144)
    assert fit_bucket(3, 511, 512) == (3, 512)


def test_buckets_hold_few_rows_of_long_pairs_and_the_largest_comes_first() -> None:
    shapes = buckets(16, 32)
    assert shapes[0] == (32, 8)
    assert sorted(shape for shape in shapes if shape[1] == 16) == [(1, 16), (2, 16), (3, 16)]
    assert sorted(rows for rows, length in shapes if length == 8) == [
        *(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
    ]


@given(
    st.integers(8, 600),
    st.integers(8, 4096),
    st.integers(1, 600),
    st.floats(0, 1, exclude_min=True),
)
def test_every_batch_within_the_budget_fits_a_known_bucket(
    max_tokens: int, max_batch_tokens: int, length: int, fill: float
) -> None:
    length = min(length, max_tokens)
    rows = max(1, int(fill * max_batch_tokens / length))
    padded = fit_bucket(rows, length, max_tokens)
    assert padded in buckets(max_tokens, max_batch_tokens)
    assert rows <= padded[0] <= rows * 1.25
    assert length <= padded[1] <= max(length * 1.125 + 7, 8)
    assert padded[1] <= max_tokens
