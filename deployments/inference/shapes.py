"""The padded shapes (rows, tokens) that batches run in."""

from __future__ import annotations

from collections.abc import Iterator

Shape = tuple[int, int]

SHORTEST = 16
GRAIN = 8  # tensor cores ask for it


def fit_exactly(rows: int, length: int, max_tokens: int) -> Shape:
    """A batch runs in the shape it has: on a CPU, every padded token costs its full price."""
    return rows, length


def ladder(max_tokens: int, max_batch_tokens: int) -> list[Shape]:
    """Full batches of pairs of the window, of half, a quarter, and so on down to 16 tokens.

    The longest come first, so that the memory they take is there for all others: attention
    takes rows * length ** 2.
    """
    lengths = [max_tokens]
    while lengths[-1] >= 2 * SHORTEST:
        lengths.append(lengths[-1] // 2)
    return [(max(1, max_batch_tokens // length), length) for length in lengths]


def fit_bucket(rows: int, length: int, max_tokens: int) -> Shape:
    """A batch runs in the next of few shapes, so that a GPU's memory and plans come to an end.

    Lengths are multiples of 8, above 128 of 16, above 256 of 32, and so on, within the window;
    rows are the next number of three binary digits.
    """
    bucket = GRAIN * coarsen(-(-length // GRAIN), bits=4)
    return coarsen(rows, bits=3), min(bucket, max_tokens)


def buckets(max_tokens: int, max_batch_tokens: int) -> list[Shape]:
    """Every shape that a batch of at most so many padded tokens can get, the largest first.

    A single pair may have more than that.
    """
    shapes = {
        (rows, bucket)
        for shortest, bucket in length_buckets(max_tokens)
        for rows in row_buckets(max(1, max_batch_tokens // shortest))
    }
    return sorted(shapes, key=lambda shape: shape[0] * shape[1] ** 2, reverse=True)


def length_buckets(max_tokens: int) -> Iterator[Shape]:
    """Yield (shortest length, padded length) of each bucket of lengths."""
    shortest = 1
    while shortest <= max_tokens:
        _, bucket = fit_bucket(1, shortest, max_tokens)
        yield shortest, bucket
        shortest = bucket + 1


def row_buckets(most: int) -> Iterator[int]:
    """Yield the padded numbers of rows of batches of 1 to `most` rows."""
    rows = 0
    while rows < most:
        rows = coarsen(rows + 1, bits=3)
        yield rows


def coarsen(value: int, bits: int) -> int:
    """Round up to a number whose binary form has at most `bits` digits before its zeros."""
    step = 1 << max(0, (value - 1).bit_length() - bits)
    return -(-value // step) * step
